"""Builds the oracle and puts questions to it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

GOPATH = Path("/usr/share/gocode")
MODULE = GOPATH / "src" / "golang.org" / "x" / "mod" / "sumdb"
SOURCE = Path(__file__).with_name("main.go")

Ask = Callable[[Sequence[dict[str, Any]]], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Puts questions to one run of the oracle, which remembers the tree it has grown.

    Bytes go as Base64 both ways. Needs Debian's golang-go and golang-golang-x-mod-dev; absent, each
    test that needs them says so by name.
    """
    go = shutil.which("go")
    if go is None or not MODULE.is_dir():
        pytest.skip("the oracle needs the packages golang-go and golang-golang-x-mod-dev")
    folder = tmp_path_factory.mktemp("oracle")
    environment = {
        **os.environ,
        "GO111MODULE": "off",
        "GOPATH": str(GOPATH),
        "GOCACHE": str(folder / "cache"),
        "GOFLAGS": "",
    }
    program = folder / "oracle"
    subprocess.run([go, "build", "-o", program, SOURCE], env=environment, check=True, timeout=110)

    def put(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        asked = "".join(json.dumps(question, default=_base64) + "\n" for question in questions)
        ended = subprocess.run(
            [program], input=asked.encode(), capture_output=True, check=True, timeout=60
        )
        answers = [json.loads(line) for line in ended.stdout.splitlines()]
        assert len(answers) == len(questions), ended.stderr
        return answers

    return put


def _base64(octets: object) -> str:
    if not isinstance(octets, bytes):
        raise TypeError(f"{octets!r} is no question")
    return base64.b64encode(octets).decode()
