"""The help teaches: each command says when to use it and shows examples that would be accepted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from ledger.cli.app import app
from ledger.cli.teaching import paragraphs


def _commands(group: Any, above: str = "ledger") -> Iterator[tuple[str, Any]]:
    """(words, command) of every command that does something."""
    for name, command in group.commands.items():
        words = f"{above} {name}"
        if not hasattr(command, "commands"):
            yield words, command
            continue
        if command.invoke_without_command:
            yield words, command
        yield from _commands(command, words)


ALL = dict(_commands(typer.main.get_command(app)))


def _examples(words: str) -> list[str]:
    """The command lines that the help shows, without what stands around them."""
    lines = [line.strip() for line in (ALL[words].help or "").splitlines()]
    shown = [part for line in lines for part in re.split(r" [|&>]+ ", line)]
    bare = [re.sub(r"^(?:[A-Z_]+=\S+ )+", "", part) for part in shown]
    return [part for part in bare if part.startswith("ledger ")]


def test_the_commands_are_those_that_the_product_names() -> None:
    assert set(ALL) == {
        f"ledger {name}"
        for name in (
            "demo", "serve", "health", "migrate", "version", "runs", "show", "unknown", "reconcile",
            "reconcile-all", "propose", "confirm", "projections check", "projections rebuild",
            "receipt", "export", "verify", "keys new", "keys list", "keys show", "tenants new",
            "tenants list", "checkpoint", "checkpoint pin", "access", "payload",
        )
    }  # fmt: skip


@pytest.mark.parametrize("words", sorted(ALL))
def test_the_help_of_a_command_shows_an_example_of_itself(words: str) -> None:
    assert any(example.startswith(words) for example in _examples(words))


@pytest.mark.parametrize("words", sorted(ALL))
def test_every_example_names_options_that_there_are(words: str) -> None:
    for example in _examples(words):
        told = shlex.split(example)
        of = next(name for name in sorted(ALL, key=len, reverse=True) if example.startswith(name))
        options = {
            name for param in ALL[of].params for name in (*param.opts, *param.secondary_opts)
        }
        named = {word for word in told if word.startswith("--")}
        assert named <= options, f"{example}: {named - options}"


@pytest.mark.parametrize("words", sorted(ALL))
def test_every_command_speaks_json_and_can_go_without_colours(words: str) -> None:
    options = {name for param in ALL[words].params for name in param.opts}
    assert {"--json", "--no-color"} <= options


@pytest.mark.parametrize("words", sorted(ALL))
def test_every_option_and_argument_is_explained(words: str) -> None:
    for param in ALL[words].params:
        assert param.help, f"{words}: {param.name}"


def test_lines_of_a_paragraph_are_joined_and_those_of_an_example_are_not() -> None:
    assert paragraphs("a\nb\n\n  x\n  y\n\nc\nd") == "a b\n\n  x\n  y\n\nc d"
