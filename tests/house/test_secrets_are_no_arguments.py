"""No process is started with a store's address or a password on its command line.

Every user of a machine can read what its processes were started with. The environment of a process
is its owner's alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house.sources import Source, parsed, sources

_STARTS = {"run", "Popen", "call", "check_call", "check_output", "execv", "execve"}
_SECRET = re.compile(r"(^|_)(dsn|store_url|password|token|conninfo)$")


def _named(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _told(source: Source) -> Iterator[str]:
    """`path:line: name` of each secret in the list that a process is started with."""
    for call in ast.walk(source.tree):
        if not (isinstance(call, ast.Call) and call.args and _named(call.func) in _STARTS):
            continue
        for node in ast.walk(call.args[0]):
            if isinstance(call.args[0], ast.List) and _SECRET.search(_named(node)):
                yield f"{source.at(node)}: {_named(node)}"


def test_no_process_is_told_a_secret_by_argument() -> None:
    assert [told for source in sources() for told in _told(source)] == []


def test_a_secret_in_a_list_of_arguments_is_found() -> None:
    text = "subprocess.run([sys.executable, store_url, x.password], env={'URL': dsn})"
    told = list(_told(parsed("tests/a.py", text)))
    assert told == ["tests/a.py:1: store_url", "tests/a.py:1: password"]
