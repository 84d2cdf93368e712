"""What a command writes: plain text into a pipe, JSON lines for programs, errors whole."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from ledger.cli.options import DEFAULT_SERVER
from ledger.cli.screen import Screen, console, local, stamp, styled, table
from ledger.cli.stops import Code, Stop, stop_of
from ledger.client import (
    CallFailed,
    CredentialMissing,
    Durability,
    InvalidRequest,
    LedgerError,
    LedgerUnavailable,
    NotAuthenticated,
    Reason,
    Refused,
    Violation,
)
from ledger.client.values import Refusal
from ledger.settings import Settings


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def _printed(stream: io.StringIO, *, no_color: bool = False) -> str:
    console(stream, no_color=no_color).print(styled("UNKNOWN"))
    return stream.getvalue()


def test_a_pipe_gets_no_escape_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert _printed(io.StringIO()) == "UNKNOWN\n"


def test_a_terminal_gets_colours_unless_they_are_turned_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[" in _printed(Terminal())
    assert _printed(Terminal(), no_color=True) == "UNKNOWN\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert _printed(Terminal()) == "UNKNOWN\n"


def test_long_text_is_not_broken_so_that_a_command_can_be_pasted() -> None:
    stream = Terminal()
    out = console(stream, no_color=True)
    Screen(machine=False, out=out, err=out).say("ledger verify " + "x" * 500)
    assert stream.getvalue() == "ledger verify " + "x" * 500 + "\n"


def test_square_brackets_of_a_payload_are_text_and_no_markup() -> None:
    stream = io.StringIO()
    out = console(stream, no_color=True)
    rows = table("what")
    rows.add(styled("[red]x[/red]"))
    Screen(machine=False, out=out, err=out).say("[bold]y[/bold]", rows)
    assert "[bold]y[/bold]" in stream.getvalue()
    assert "[red]x[/red]" in stream.getvalue()


def test_with_json_standard_output_holds_objects_only(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen.of(machine=True, no_color=True)
    screen.say("for people")
    screen.item({"a": 1})
    screen.final({"count": 1})
    screen.stop(Stop("it broke", safe="all", next="again", code=Code.REFUSED))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == [{"a": 1}, {"count": 1}]
    assert lines[2]["error"] == {
        "what": "it broke",
        "safe_now": "all",
        "do_next": "again",
        "exit": 6,
    }


def test_an_error_says_what_is_safe_and_what_to_do_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = Screen.of(machine=False, no_color=True)
    screen.stop(Stop("it broke", safe="all is safe", next="try again"))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "error: it broke\n  safe now: all is safe\n  do next:  try again\n"


def test_times_are_shown_with_their_zone_and_told_in_utc() -> None:
    moment = datetime(2026, 3, 1, 23, 30, 0, 123456, tzinfo=timezone(timedelta(hours=-5)))
    assert stamp(moment) == "2026-03-02T04:30:00.123456Z"
    assert local(moment, utc=True) == "2026-03-02 04:30:00 +00:00"
    assert local(None) == ""
    assert local(moment.astimezone(UTC)).endswith(local(moment)[-6:])


def _refused(reason: Reason) -> Refused:
    return Refused(Refusal(reason, may_succeed_later=False, message="No."))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (_refused(Reason.TOO_EARLY), Code.REFUSED),
        (InvalidRequest(Violation("run", "is empty")), Code.WRONG_USAGE),
        (CredentialMissing("no token"), Code.NO_CREDENTIAL),
        (NotAuthenticated(detail="bad"), Code.NO_CREDENTIAL),
        (
            LedgerUnavailable(
                method="X", durability=Durability.MAYBE_COMMITTED, tries=3, detail="gone"
            ),
            Code.UNAVAILABLE,
        ),
        (
            CallFailed(
                method="X", code="INTERNAL", durability=Durability.MAYBE_COMMITTED, detail="?"
            ),
            Code.UNAVAILABLE,
        ),
        (LedgerError("something else"), Code.BROKE),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: LedgerError, code: Code) -> None:
    stop = stop_of(error)
    assert stop.code is code
    assert str(error) in stop.what


@pytest.mark.parametrize("reason", list(Reason))
def test_every_refusal_says_what_to_do_next(reason: Reason) -> None:
    assert stop_of(_refused(reason)).next


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (Reason.PROPOSAL_REQUIRED, ("ledger unknown", "--proposal INDEX", "ledger propose")),
        (Reason.OWN_PROPOSAL, ("another person", "--proposal INDEX", "--token-file FILE")),
    ],
)
def test_where_two_people_decide_the_next_step_names_who_confirms_and_how(
    reason: Reason, said: tuple[str, ...]
) -> None:
    told = stop_of(_refused(reason)).next
    assert [words for words in said if words not in told] == []


def test_an_unclear_answer_is_told_to_programs() -> None:
    error = LedgerUnavailable(
        method="X", durability=Durability.MAYBE_COMMITTED, tries=1, detail="gone"
    )
    assert stop_of(error).as_json()["reason"] == "MAYBE_COMMITTED"


def test_command_and_server_agree_on_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEDGER_LISTEN", raising=False)
    assert Settings().listen == DEFAULT_SERVER
