"""Numbered plain SQL, applied once each, in order.

A file's digest is recorded with it: a file that changed after it was applied, or one that this
build does not know, means that another build made this database, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Literal, Protocol

from ledger.store.errors import WrongSchema


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file. `digest` is the SHA-256 of its bytes in lower-case hexadecimal."""

    name: str
    digest: str
    statements: tuple[str, ...]


class Applying(Protocol):
    """A transaction that holds the right to migrate: no other process has one at the same time."""

    def applied(self) -> Mapping[str, str]:
        """The digests of what was applied, by name, as committed now."""

    def execute(self, statement: str) -> None:
        """Runs one statement of a migration."""

    def record(self, migration: Migration) -> None:
        """Notes a migration as applied."""


def known_migrations(database: Literal["sqlite", "postgres"]) -> tuple[Migration, ...]:
    """This build's migrations in the order of their numbers."""
    folder = files("ledger.store") / "migrations" / database
    found = [item for item in folder.iterdir() if item.name.endswith(".sql")]
    return tuple(
        _read(item.name.removesuffix(".sql"), item.read_bytes())
        for item in sorted(found, key=lambda item: item.name)
    )


def missing_migrations(
    known: Sequence[Migration], applied: Mapping[str, str]
) -> tuple[Migration, ...]:
    """What is still to apply. Raises `WrongSchema` unless the applied ones are, byte for byte, the
    first of the known ones."""
    names = {migration.name for migration in known}
    strangers = sorted(applied.keys() - names)
    if strangers:
        raise WrongSchema(f"the database has migrations of a newer build: {', '.join(strangers)}")
    for migration in known[: len(applied)]:
        digest = applied.get(migration.name)
        if digest is None:
            raise WrongSchema(f"migration {migration.name} was left out by another build")
        if digest != migration.digest:
            raise WrongSchema(f"migration {migration.name} was applied with another content")
    return tuple(known[len(applied) :])


def apply_missing(
    known: Sequence[Migration], begin: Callable[[], AbstractContextManager[Applying]]
) -> list[str]:
    """Applies what is missing, each in a transaction of its own, and answers the names.

    Under each lock the list is read anew, so that what another process applied meanwhile is not
    applied again."""
    done: list[str] = []
    while True:
        with begin() as applying:
            missing = missing_migrations(known, applying.applied())
            if not missing:
                return done
            for statement in missing[0].statements:
                applying.execute(statement)
            applying.record(missing[0])
        done.append(missing[0].name)


def statements_of(text: str) -> Iterator[str]:
    """Cuts plain SQL at each line that ends with a semicolon; comments go."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("--"):
            lines.append(line)
        if line.endswith(";"):
            yield "\n".join(lines)
            lines = []
    if lines:
        raise ValueError("a migration does not end with a semicolon")


def _read(name: str, octets: bytes) -> Migration:
    text = octets.decode("utf-8")
    return Migration(name, sha256(octets).hexdigest(), tuple(statements_of(text)))
