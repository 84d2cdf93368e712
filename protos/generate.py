"""Generates `ledger/v1` from `protos/ledger/v1`, and checks what is committed against the sources.

    python protos/generate.py            writes the generated code
    python protos/generate.py --check    exits 1 when it is stale, naming each file
    python protos/generate.py --lint     exits 1 when buf finds a fault, naming each place

A developer's tool: it needs the `test` extra and no network. The google/api and google/rpc sources
come from the `googleapis-common-protos` package, the well-known types from `grpcio-tools`, so that
buf needs no remote registry: it lints an image that protoc built.
"""

from __future__ import annotations

import argparse
import filecmp
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path("ledger/v1")
HAND_WRITTEN = frozenset({"__init__.py"})


class GenerationFailed(Exception):
    """protoc refused the sources; the message is what protoc said."""


def _tool(name: str) -> str:
    """The path of a console script: that of this interpreter's environment before any on PATH."""
    beside = Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise GenerationFailed(f"{name} is not installed; install the 'test' extra")
    return found


def _sources(protos: Path) -> list[str]:
    found = sorted(str(path.relative_to(protos)) for path in (protos / PACKAGE).rglob("*.proto"))
    if not found:
        raise GenerationFailed(f"no .proto file under {protos / PACKAGE}")
    return found


def _protoc(protos: Path, outputs: Sequence[str]) -> None:
    # protoc runs as a child: within this process its options would leak from one call to the next.
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"--proto_path={protos}",
        f"--proto_path={distribution('googleapis-common-protos').locate_file('')}",
        f"--proto_path={distribution('grpcio-tools').locate_file('grpc_tools/_proto')}",
        *outputs,
        *_sources(protos),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise GenerationFailed(ended.stderr.strip() or f"protoc exited {ended.returncode}")


def generate(protos: Path, into: Path) -> None:
    """Writes messages, service stubs and their type stubs for `protos/ledger/v1` under `into`.

    Paths follow the proto path, so the files land in `into/ledger/v1` and import each other as
    `ledger.v1.x_pb2`. Raises GenerationFailed; what was written until then stays in `into`.
    """
    into.mkdir(parents=True, exist_ok=True)
    plugins = [
        f"--plugin={name}={_tool(name)}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")
    ]
    _protoc(
        protos,
        [
            *plugins,
            f"--python_out={into}",
            f"--grpc_python_out={into}",
            f"--mypy_out={into}",
            f"--mypy_grpc_out={into}",
        ],
    )


def differences(fresh: Path, committed: Path) -> list[str]:
    """Names each generated file that is missing, left over, or not byte for byte the fresh one."""
    new = {path.name for path in fresh.iterdir()} if fresh.is_dir() else set()
    old = {path.name for path in committed.iterdir() if path.suffix in {".py", ".pyi"}}
    old -= HAND_WRITTEN
    found = [f"{name}: missing" for name in new - old]
    found += [f"{name}: left over, its source is gone" for name in old - new]
    found += [
        f"{name}: differs from its source"
        for name in new & old
        if not filecmp.cmp(fresh / name, committed / name, shallow=False)
    ]
    return sorted(found)


def check(protos: Path, root: Path) -> list[str]:
    """Generates into a temporary folder and compares with `root/ledger/v1`; empty means fresh."""
    with tempfile.TemporaryDirectory(prefix="ledger-protos-") as folder:
        generate(protos, Path(folder))
        return differences(Path(folder) / PACKAGE, root / PACKAGE)


def write(protos: Path, root: Path) -> list[str]:
    """Replaces the generated files in `root/ledger/v1`; nothing is touched if protoc refuses.

    Returns the names written. Files whose source is gone are removed.
    """
    target = root / PACKAGE
    with tempfile.TemporaryDirectory(prefix="ledger-protos-") as folder:
        generate(protos, Path(folder))
        fresh = sorted((Path(folder) / PACKAGE).iterdir())
        for stale in target.glob("*_pb2*.py*"):
            stale.unlink()
        for path in fresh:
            shutil.copyfile(path, target / path.name)
        return [path.name for path in fresh]


def lint(protos: Path) -> list[str]:
    """buf's findings (STANDARD and COMMENTS, `buf.yaml`) on our own files; empty means clean."""
    with tempfile.TemporaryDirectory(prefix="ledger-protos-") as folder:
        image = Path(folder) / "ledger.binpb"
        options = ["--include_imports", "--include_source_info", f"--descriptor_set_out={image}"]
        _protoc(protos, options)
        command = [
            _tool("buf"),
            "lint",
            str(image),
            f"--config={ROOT / 'protos' / 'buf.yaml'}",
            *(f"--path={source}" for source in _sources(protos)),
        ]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    findings = [line for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
    if ended.returncode != 0 and not findings:
        findings = [f"buf exited {ended.returncode}"]
    return findings


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; exit status 0 clean, 1 stale, faulty or refused by protoc."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    mode.add_argument("--lint", action="store_true", help="run buf lint; exit 1 on a finding")
    parser.add_argument("--protos", type=Path, default=ROOT / "protos", help="folder of sources")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder that holds ledger/v1")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.lint:
            findings = lint(chosen.protos)
        elif chosen.check:
            findings = check(chosen.protos, chosen.root)
        else:
            print("\n".join(write(chosen.protos, chosen.root)))
            return 0
    except GenerationFailed as failed:
        print(failed, file=sys.stderr)
        return 1
    for finding in findings:
        print(finding, file=sys.stderr)
    if findings and chosen.check:
        print("stale: run python protos/generate.py", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
