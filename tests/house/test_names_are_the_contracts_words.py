"""Banned names: words that say nothing, or that mean something else in this product."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.sources import Source, parsed, sources

BANNED = frozenset(
    "job jobs session sessions save saves saved snapshot snapshots manager managers helper helpers "
    "util utils common processor processors".split()
)

# Banned as the whole name only: `data_key` is the contract's word.
BANNED_ALONE = frozenset({"data"})

# (path, identifier) -> why the name is not ours to choose. An entry that no file needs is a fault.
EXCEPTIONS: dict[tuple[str, str], str] = {}

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def words(identifier: str) -> list[str]:
    """`leaseMsMax`, `LEASE_MS_MAX` and `lease_ms_max` all hold lease, ms and max."""
    return [word.lower() for word in WORD.findall(identifier)]


def is_banned(identifier: str) -> bool:
    """Whether a name we chose says one of the banned words."""
    alone = identifier.strip("_").lower() in BANNED_ALONE
    return alone or not BANNED.isdisjoint(words(identifier))


def chosen_names(source: Source) -> Iterator[tuple[str, str]]:
    """(`path:line`, name) of each name that the file defines, not of those it only uses."""
    for part in source.path.removesuffix(".py").split("/"):
        yield source.path, part
    for node in ast.walk(source.tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield source.at(node), node.name
                if not node.name.startswith("pytest_"):  # a hook's parameter names are pytest's
                    yield from ((source.at(arg), arg.arg) for arg in _parameters(node.args))
            case ast.Lambda():
                yield from ((source.at(arg), arg.arg) for arg in _parameters(node.args))
            case ast.ClassDef(name=name):
                yield source.at(node), name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield source.at(node), name
            case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                yield source.at(node), name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield source.at(node), name
            case _:
                pass


def _parameters(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None)


def banned_names(source: Source) -> Iterator[tuple[str, str]]:
    """The banned ones among a file's chosen names, exceptions included."""
    return ((place, name) for place, name in chosen_names(source) if is_banned(name))


def test_no_banned_name_is_chosen() -> None:
    found = [
        f"{place}: {name}"
        for source in sources()
        for place, name in banned_names(source)
        if (source.path, name) not in EXCEPTIONS
    ]
    assert not found, "\n".join(found)


def test_every_exception_is_still_needed() -> None:
    needed = {(source.path, name) for source in sources() for _, name in banned_names(source)}
    assert EXCEPTIONS.keys() <= needed
    assert all(len(reason.split()) > 2 for reason in EXCEPTIONS.values())


@pytest.mark.parametrize(
    "text",
    [
        "class RunManager: pass",
        "def save_run(): pass",
        "def f(session): pass",
        "for data in x: pass",
        "import json as util",
        "self.job_count = 1",
        "HELPERS = 1",
        "lambda data: 1",
    ],
)
def test_a_banned_name_is_found(text: str) -> None:
    assert list(banned_names(parsed("ledger/x.py", text)))


@pytest.mark.parametrize("path", ["ledger/utils.py", "tests/common/test_x.py"])
def test_a_banned_file_name_is_found(path: str) -> None:
    assert list(banned_names(parsed(path, "")))


@pytest.mark.parametrize(
    "text",
    ["data_key = 1", "x = session", "x.save()", "metadata = 1", "class Datum: pass", "f(data=1)"],
)
def test_a_name_that_is_only_used_or_only_looks_alike_passes(text: str) -> None:
    assert not list(banned_names(parsed("ledger/x.py", text)))
