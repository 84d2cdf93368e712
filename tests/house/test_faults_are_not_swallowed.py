"""Broad excepts re-raise; nothing is left for later."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tests.house.sources import Source, functions, parsed, sources

# The one place that may turn any exception into an answer: "path::qualified function" -> why.
RPC_BOUNDARY: dict[str, str] = {}

BROAD = frozenset({"Exception", "BaseException"})
LEFT_FOR_LATER = re.compile(r"\b(TODO|FIXME|XXX|HACK|WIP)\b")


def _is_broad(kind: ast.expr | None) -> bool:
    match kind:
        case None:
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in BROAD
        case ast.Tuple(elts=kinds):
            return any(_is_broad(each) for each in kinds)
        case _:
            return False


def _always_raises(body: list[ast.stmt]) -> bool:
    """Whether every way out of these statements is a `raise`."""
    match body[-1]:
        case ast.Raise():
            return True
        case ast.If(body=then, orelse=[*otherwise]) if otherwise:
            return _always_raises(then) and _always_raises(otherwise)
        case ast.With(body=inner) | ast.AsyncWith(body=inner) | ast.Try(finalbody=[], body=inner):
            return _always_raises(inner)
        case _:
            return False


def _leaves_early(handler: ast.ExceptHandler) -> bool:
    leaving = ast.Return | ast.Break | ast.Continue
    return any(isinstance(node, leaving) for node in ast.walk(handler))


def swallowing_excepts(source: Source) -> Iterator[tuple[str, str]]:
    """(`path:line`, enclosing function) of each broad except that may not re-raise."""
    enclosing = {
        id(inner): name for name, node in functions(source) for inner in ast.walk(node)
    }  # inner functions come later, so the innermost name stays
    for node in ast.walk(source.tree):
        name = f"{source.path}::{enclosing.get(id(node), '(module)')}"
        match node:
            case ast.ExceptHandler(type=kind, body=body) if _is_broad(kind):
                if _leaves_early(node) or not _always_raises(body):
                    yield source.at(node), name
            case ast.Call(func=ast.Attribute(attr="suppress") | ast.Name(id="suppress")):
                if any(_is_broad(kind) for kind in node.args):
                    yield source.at(node), name
            case _:
                pass


def left_for_later(source: Source) -> Iterator[str]:
    """Marks of unfinished work: in comments, or a NotImplementedError in code."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT and LEFT_FOR_LATER.search(token.string):
            yield f"{source.path}:{token.start[0]}: {token.string}"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and node.id == "NotImplementedError":
            yield f"{source.at(node)}: {node.id}"


def test_every_broad_except_re_raises_but_for_one_rpc_boundary() -> None:
    found = [
        f"{place}: in {name}"
        for source in sources()
        for place, name in swallowing_excepts(source)
        if name not in RPC_BOUNDARY
    ]
    assert not found, "\n".join(found)


def test_there_is_at_most_one_rpc_boundary_and_it_stands() -> None:
    present = {name for source in sources() for _, name in swallowing_excepts(source)}
    assert len(RPC_BOUNDARY) <= 1
    assert RPC_BOUNDARY.keys() <= present
    assert all(name.startswith("ledger/service/") for name in RPC_BOUNDARY)


def test_nothing_is_left_for_later() -> None:
    found = [fault for source in sources() for fault in left_for_later(source)]
    assert not found, "\n".join(found)


def _caught(handler: str) -> str:
    return f"def f():\n    try:\n        g()\n{handler}"


@pytest.mark.parametrize(
    "text",
    [
        _caught("    except Exception:\n        pass\n"),
        _caught("    except:\n        log()\n"),
        _caught("    except (ValueError, BaseException):\n        return 1\n"),
        _caught("    except Exception:\n        if x:\n            raise\n"),
        _caught("    except Exception:\n        if x:\n            return\n        raise\n"),
        "with contextlib.suppress(Exception):\n    g()\n",
    ],
)
def test_a_swallowing_except_is_found(text: str) -> None:
    assert list(swallowing_excepts(parsed("ledger/x.py", text)))


@pytest.mark.parametrize(
    "text",
    [
        _caught("    except Exception:\n        undo()\n        raise\n"),
        _caught("    except Exception as cause:\n        raise Unclear from cause\n"),
        _caught("    except ValueError:\n        pass\n"),
        "with contextlib.suppress(KeyError):\n    g()\n",
    ],
)
def test_an_except_that_re_raises_or_is_narrow_passes(text: str) -> None:
    assert not list(swallowing_excepts(parsed("ledger/x.py", text)))


def test_the_innermost_function_is_the_one_named() -> None:
    inner = _caught("    except Exception:\n        pass\n").replace("def f", "def inner")
    text = "def outer():\n    " + inner.replace("\n", "\n    ")
    assert [name for _, name in swallowing_excepts(parsed("x.py", text))] == ["x.py::outer.inner"]


@pytest.mark.parametrize("text", ["x = 1  # TO" + "DO later\n", "raise NotImplementedError\n"])
def test_unfinished_work_is_found(text: str) -> None:
    assert list(left_for_later(parsed("ledger/x.py", text)))
