"""No mocks of our own code, no waiting by the clock, no silent skips, no test that cannot fail.

A sleep that is a pause between looks at a condition says so in a comment that begins `# pause:`;
a replaced attribute says what and why in one that begins `# replaces:`. Either stands on the line
or directly above it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.sources import Source, functions, imports, parsed, sources, under

# What skips, and which positional argument may carry the reason.
SKIPPING: dict[str, int | None] = {
    "pytest.skip": 0,
    "skip": 0,
    "mark.skip": 0,
    "mark.skipif": None,
    "mark.xfail": None,
    "pytest.importorskip": None,
}

MOCKS = ("unittest.mock", "mock", "pytest_mock")


def _called(node: ast.Call) -> str:
    match node.func:
        case ast.Attribute(value=ast.Name(id=owner), attr=attr):
            return f"{owner}.{attr}"
        case ast.Attribute(value=ast.Attribute(attr=owner), attr=attr):
            return f"{owner}.{attr}"
        case ast.Name(id=name):
            return name
        case _:
            return ""


def _says(source: Source, node: ast.Call, word: str) -> bool:
    lines = source.text.splitlines()
    near = lines[max(0, node.lineno - 2) : node.lineno]
    return any(f"# {word}: " in line for line in near)


def _reason_given(node: ast.Call, *, positional: int | None) -> bool:
    given = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
    if positional is not None and len(node.args) > positional:
        given.append(node.args[positional])
    return any(not isinstance(each, ast.Constant) or bool(each.value) for each in given)


def dishonest_calls(source: Source) -> Iterator[str]:
    """Sleeps, replacements and skips without their reason."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        called = _called(node)
        if called in {"time.sleep", "asyncio.sleep", "sleep"} and not _is_zero(node):
            if not _says(source, node, "pause"):
                yield f"{source.at(node)}: waits by the clock; wait on a condition with a deadline"
        elif called == "monkeypatch.setattr" and not _says(source, node, "replaces"):
            yield f"{source.at(node)}: replaces an attribute without saying what and why"
        elif called in SKIPPING and not _reason_given(node, positional=SKIPPING[called]):
            yield f"{source.at(node)}: {called} without a reason"


def _is_zero(node: ast.Call) -> bool:
    match node.args:
        case [ast.Constant(value=0)]:
            return True
        case _:
            return False


def bare_skip_marks(source: Source) -> Iterator[str]:
    """`@pytest.mark.skip` and its kin used without a call, so without a reason."""
    for name, node in functions(source):
        for decorator in node.decorator_list:
            match decorator:
                case ast.Attribute(attr="skip" | "skipif" | "xfail" as mark):
                    yield f"{source.at(node)}: {name} is marked {mark} without a reason"
                case _:
                    pass


def mocks(source: Source) -> Iterator[str]:
    """Imports of mock libraries, and fixtures that hand one out."""
    for place, name in imports(source):
        if any(under(name, banned) for banned in MOCKS):
            yield f"{place}: {name}; use the real thing"
    for name, node in functions(source):
        if any(arg.arg == "mocker" for arg in node.args.args):
            yield f"{source.at(node)}: {name} takes a mock; use the real thing"


CHECKING_WORDS = (
    "assert",
    "check",
    "expect",
    "fail",
    "raises",
    "require",
    "verify",
    "wait",
    "warns",
)


def _asserts(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Assert | ast.Raise) for inner in ast.walk(node))


def _checkers(source: Source) -> set[str]:
    """Names that may check on a test's behalf: own functions that assert, and what tests share."""
    own = {name.rpartition(".")[2] for name, node in functions(source) if _asserts(node)}
    shared = {name.rpartition(".")[2] for _, name in imports(source) if under(name, "tests")}
    return own | shared


def _checks(node: ast.AST, checkers: set[str]) -> bool:
    """Whether anything below can fail on purpose: an assert, a raise, or a call that checks."""
    called = {
        _called(inner).rpartition(".")[2] for inner in ast.walk(node) if isinstance(inner, ast.Call)
    }
    by_word = any(name.lstrip("_").startswith(CHECKING_WORDS) for name in called)
    return _asserts(node) or by_word or not called.isdisjoint(checkers)


def unfailing_tests(source: Source) -> Iterator[str]:
    """Test functions that check nothing, or nothing but that something is not None."""
    checkers = _checkers(source)
    for name, node in functions(source):
        if not name.rpartition(".")[2].startswith("test_"):
            continue
        asserts = [inner for inner in ast.walk(node) if isinstance(inner, ast.Assert)]
        if not _checks(node, checkers):
            yield f"{source.at(node)}: {name} checks nothing"
        elif asserts and all(_only_not_none(each.test) for each in asserts):
            yield f"{source.at(node)}: {name} only checks that something is not None"


def _only_not_none(test: ast.expr) -> bool:
    match test:
        case ast.Constant(value=True):
            return True
        case ast.Compare(ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return True
        case _:
            return False


def _found(source: Source) -> list[str]:
    rules = (dishonest_calls, bare_skip_marks, mocks, unfailing_tests)
    return [fault for rule in rules for fault in rule(source)]


def test_every_test_is_honest() -> None:
    found = [fault for source in sources("tests") for fault in _found(source)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.sleep(1)",
        "async def f():\n    await asyncio.sleep(0.1)",
        "monkeypatch.setattr(ledger, 'x', 1)",
        "pytest.skip()",
        "pytest.skip('')",
        "@pytest.mark.skipif(True)\ndef test_x():\n    assert f() == 1",
        "@pytest.mark.skip\ndef test_x():\n    assert f() == 1",
        "pytest.importorskip('psycopg')",
        "from unittest.mock import patch",
        "from unittest import mock",
        "def test_x(mocker):\n    assert f() == 1",
        "def test_x():\n    f()",
        "def test_x():\n    result = f()\n    assert result is not None",
    ],
)
def test_a_dishonest_line_is_found(text: str) -> None:
    assert _found(parsed("tests/unit/test_x.py", text))


@pytest.mark.parametrize(
    "text",
    [
        "# pause: between looks at the port\ntime.sleep(0.01)",
        "time.sleep(0.01)  # pause: between looks at the port",
        "async def f():\n    await asyncio.sleep(0)",
        "# replaces: the library's clock\nmonkeypatch.setattr(x, 'y', 1)",
        "pytest.skip('no strace here')",
        "@pytest.mark.skipif(WINDOWS, reason='no fork')\ndef test_x():\n    assert f() == 1",
        "def test_x():\n    with pytest.raises(ValueError):\n        f()",
        "def test_x():\n    assert f() == 1",
    ],
)
def test_an_honest_line_passes(text: str) -> None:
    assert not _found(parsed("tests/unit/test_x.py", text))
