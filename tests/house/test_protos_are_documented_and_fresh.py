"""The wire contract: linted, documented, and the committed code made from it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT


def _generate(*arguments: str) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, str(ROOT / "protos" / "generate.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A checkout's worth of protos and generated code that a test may damage."""
    shutil.copytree(ROOT / "protos" / "ledger", tmp_path / "protos" / "ledger")
    shutil.copytree(ROOT / "ledger" / "v1", tmp_path / "ledger" / "v1")
    return tmp_path


def _in(copied: Path, *arguments: str) -> tuple[int, str]:
    return _generate("--protos", str(copied / "protos"), "--root", str(copied), *arguments)


def test_buf_finds_nothing_and_every_element_is_documented() -> None:
    status, printed = _generate("--lint")
    assert status == 0, printed
    assert printed == ""


def test_the_generated_code_is_fresh() -> None:
    status, printed = _generate("--check")
    assert status == 0, printed


def test_an_undocumented_element_is_found(copied: Path) -> None:
    added = copied / "protos" / "ledger" / "v1" / "added.proto"
    added.write_text('syntax = "proto3";\n\npackage ledger.v1;\n\nmessage Added {}\n')
    status, printed = _in(copied, "--lint")
    assert status == 1
    assert 'Message "Added" should have a non-empty comment' in printed


def test_generated_code_that_is_stale_missing_or_left_over_is_found(copied: Path) -> None:
    generated = sorted((copied / "ledger" / "v1").glob("*_pb2.py"))
    generated[0].write_bytes(generated[0].read_bytes() + b"\n")
    generated[1].unlink()
    (copied / "ledger" / "v1" / "gone_pb2.py").write_text("")
    status, printed = _in(copied, "--check")
    assert status == 1
    assert f"{generated[0].name}: differs from its source" in printed
    assert f"{generated[1].name}: missing" in printed
    assert "gone_pb2.py: left over, its source is gone" in printed


def test_sources_that_protoc_refuses_leave_the_generated_code_alone(copied: Path) -> None:
    generated = [path for path in (copied / "ledger" / "v1").iterdir() if path.is_file()]
    before = {path.name: path.read_bytes() for path in generated}
    (copied / "protos" / "ledger" / "v1" / "added.proto").write_text("message {")
    status, printed = _in(copied)
    assert status == 1
    assert "added.proto" in printed
    assert before == {path.name: path.read_bytes() for path in generated}
