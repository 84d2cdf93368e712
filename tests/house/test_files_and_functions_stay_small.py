"""Lengths, with lists of exceptions that can only shrink.

A docstring does not count: a contract may be as long as it must.
"""

from __future__ import annotations

import ast

import pytest

from tests.house.sources import Source, functions, parsed, sources

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60

# path -> lines now. Lower the number when the file shrinks; remove the row when it fits.
LONG_FILES: dict[str, int] = {}

# "path::qualified name" -> lines now, docstring not counted.
LONG_FUNCTIONS: dict[str, int] = {}


def file_lengths() -> dict[str, int]:
    """Lines of every hand-written file, by path."""
    return {source.path: len(source.text.splitlines()) for source in sources()}


def function_lengths(*read: Source) -> dict[str, int]:
    """Lines of every function from `def` to its end, decorators and docstring left out."""
    lengths = {}
    for source in read:
        for name, node in functions(source):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            lengths[f"{source.path}::{name}"] = lines - _docstring_lines(node)
    return lengths


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node, clean=False) is None:
        return 0
    first = node.body[0]
    assert first.end_lineno is not None
    return first.end_lineno - first.lineno + 1


def faults(lengths: dict[str, int], *, limit: int, exceptions: dict[str, int]) -> list[str]:
    """What is too long, has grown past its row, or no longer needs its row as it stands."""
    found = []
    for name, lines in sorted(lengths.items()):
        if lines > exceptions.get(name, limit):
            found.append(f"{name}: {lines} lines, at most {exceptions.get(name, limit)}")
    for name, listed in sorted(exceptions.items()):
        lines = lengths.get(name, 0)
        if lines <= limit:
            found.append(f"{name}: no longer an exception; remove its row")
        elif lines < listed:
            found.append(f"{name}: shrank from {listed} to {lines} lines; lower its row")
    return found


def test_no_file_is_over_its_length() -> None:
    found = faults(file_lengths(), limit=FILE_LINES_MAX, exceptions=LONG_FILES)
    assert not found, "\n".join(found)


def test_no_function_is_over_its_length() -> None:
    lengths = function_lengths(*sources())
    found = faults(lengths, limit=FUNCTION_LINES_MAX, exceptions=LONG_FUNCTIONS)
    assert not found, "\n".join(found)


def test_a_docstring_does_not_count_towards_a_functions_length() -> None:
    source = parsed(
        "x.py", 'class A:\n    def f(self):\n        """One.\n\n        Two.\n        """\n'
    )
    assert function_lengths(source) == {"x.py::A.f": 1}


@pytest.mark.parametrize(
    ("lines", "exceptions", "said"),
    [
        (61, {}, "61 lines, at most 60"),
        (71, {"f": 70}, "71 lines, at most 70"),
        (69, {"f": 70}, "lower its row"),
        (60, {"f": 70}, "remove its row"),
    ],
)
def test_growth_and_needless_exceptions_are_found(
    lines: int, exceptions: dict[str, int], said: str
) -> None:
    found = faults({"f": lines}, limit=60, exceptions=exceptions)
    assert len(found) == 1
    assert said in found[0]


def test_an_exception_for_what_is_gone_is_found() -> None:
    assert faults({}, limit=60, exceptions={"gone": 70}) == [
        "gone: no longer an exception; remove its row"
    ]
