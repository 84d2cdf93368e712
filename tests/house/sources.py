"""The project's own Python files, parsed: what every house test reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("ledger", "projections", "server.py", "tests", "bench", "protos")
GENERATED = "ledger/v1/"


@dataclass(frozen=True, slots=True)
class Source:
    """One hand-written Python file; `path` is relative to the checkout, with forward slashes."""

    path: str
    text: str
    tree: ast.Module

    @property
    def module(self) -> str:
        """The dotted name under which Python imports the file."""
        return self.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")

    def at(self, node: ast.AST) -> str:
        """`path:line` of a node of this file."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


def parsed(path: str, text: str) -> Source:
    """A source from text, as if it stood at `path`; raises SyntaxError."""
    return Source(path, text, ast.parse(text, filename=path))


@cache
def sources(*places: str) -> tuple[Source, ...]:
    """Every hand-written .py file under `places` (default: all of the project), by path."""
    found = []
    for place in places or PLACES:
        start = ROOT / place
        files = [start] if start.is_file() else sorted(start.rglob("*.py"))
        for file in files:
            path = file.relative_to(ROOT).as_posix()
            if not path.startswith(GENERATED) and "__pycache__" not in path:
                found.append(parsed(path, file.read_text(encoding="utf-8")))
    return tuple(found)


def imports(source: Source) -> Iterator[tuple[str, str]]:
    """(`path:line`, dotted name) of every import, wherever it stands.

    `from a import b` yields `a.b`: whether b is a module or a name in one makes no difference to
    a rule about prefixes.
    """
    for node in ast.walk(source.tree):
        match node:
            case ast.Import(names=names):
                for name in names:
                    yield source.at(node), name.name
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for name in names:
                    yield source.at(node), f"{module}.{name.name}"
            case ast.ImportFrom(level=level) if level > 0:
                yield source.at(node), "(relative import)"
            case _:
                pass


def functions(source: Source) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """(qualified name, node) of every function and method, nested ones included."""
    yield from _functions(source.tree, "")


def _functions(
    node: ast.AST, prefix: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{child.name}", child
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def under(name: str, prefix: str) -> bool:
    """Whether the dotted `name` is `prefix` or lies inside it."""
    return name == prefix or name.startswith(prefix + ".")
