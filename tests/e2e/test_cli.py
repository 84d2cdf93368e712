"""The command `ledger` against a real server: what it shows, what it decides, how it ends."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from ledger.client import DefinitelyFailed, Ledger, Step
from tests.support.command_line import CommandLine, Ended
from tests.support.server_process import LedgerServer

ESCAPE = "\x1b"


@dataclass(frozen=True, slots=True)
class Served:
    """A server with a few runs in it, and the command told of it by its variables."""

    server: LedgerServer
    ledger: CommandLine


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("cli")
    server = LedgerServer(folder / "server").start()
    settings = {"LEDGER_SERVER": server.address, "LEDGER_DATA": str(server.folder)}
    try:
        _fill(server)
        yield Served(server, CommandLine(folder, settings))
    finally:
        server.close()


def _fill(server: LedgerServer) -> None:
    """One run that ended well, and one for each test that decides."""
    with Ledger.connect(server.address, token=server.token()) as client:
        with client.run("paid", holder="agent", labels={"shop": "north"}) as run:
            run.plan([Step("s1", "refund", "1", {"order": 1})])
            with run.effect("s1") as effect:
                effect.succeeded({"receipt": 1})
            run.plan([Step("s2", "refund", "1", {"order": 2})])
            with pytest.raises(DefinitelyFailed), run.effect("s2"):
                raise DefinitelyFailed("no such order")
        for name in ("doubtful", "asked", "early", "scripted"):
            _leave_unknown(client, name, timeout_s=600.0 if name == "early" else 1.0)


def _leave_unknown(client: Ledger, run: str, *, timeout_s: float) -> None:
    driven = client.run(run, holder="agent")
    with contextlib.suppress(TimeoutError), driven:
        driven.plan([Step("s1", "send_invoice", "1", {"run": run})])
        with driven.effect("s1", timeout_s=timeout_s):
            raise TimeoutError("the mail server did not answer")


def _final(served: Served, *arguments: str, code: int = 0) -> dict[str, object]:
    return served.ledger(*arguments, "--json", code=code).final


def test_a_server_that_serves_is_healthy_and_needs_no_token_to_say_so(served: Served) -> None:
    assert _final(served, "health") == {"server": served.server.address, "serving": True}


def test_no_server_at_all_is_said_with_what_is_safe_and_what_to_do(tmp_path: Path) -> None:
    ended = CommandLine(tmp_path)("health", "--server", "127.0.0.1:1", code=7)
    assert "does not answer" in ended.err
    assert "safe now" in ended.err
    assert "ledger serve" in ended.err


def test_the_version_is_that_of_the_project(tmp_path: Path) -> None:
    said = CommandLine(tmp_path)("version", "--json").final
    assert re.fullmatch(r"\d+\.\d+\.\d+", str(said["ledger"]))


def test_runs_are_listed_a_line_each_and_counted_last(served: Served) -> None:
    lines = served.ledger("runs", "--json").lines
    assert {line["run"] for line in lines[:-1]} >= {"paid", "doubtful", "early"}
    assert lines[-1] == {"count": len(lines) - 1}
    (paid,) = (line for line in lines[:-1] if line["run"] == "paid")
    assert paid["status"] == "COMPLETED"
    assert paid["labels"] == {"shop": "north"}
    assert "paid" not in {
        line.get("run") for line in served.ledger("runs", "--open", "--json").lines
    }


def test_a_runs_story_names_steps_attempts_people_and_the_time_zone(served: Served) -> None:
    said = served.ledger("show", "paid", "--utc").out
    assert "run paid  COMPLETED" in said
    assert re.search(r"^\d{4}-\d\d-\d\d \+00:00$", said, re.MULTILINE)
    assert re.search(r"s1 +SUCCEEDED +attempt 1 ended well +runtime", said)
    assert re.search(r"s2 +FAILED +attempt 1 definitely failed +runtime", said)
    assert ESCAPE not in said
    story = _final(served, "show", "paid")
    assert [step["state"] for step in story["steps"]] == ["SUCCEEDED", "FAILED"]  # type: ignore[attr-defined]


def test_a_run_that_is_not_there_is_said_so(served: Served) -> None:
    error = _final(served, "show", "nobody", code=6)["error"]
    assert isinstance(error, dict)
    assert error["do_next"]
    assert error["exit"] == 6


def test_unknowns_are_listed_with_what_reconcile_takes(served: Served) -> None:
    lines = served.ledger("unknown", "--json").lines
    (early,) = (line for line in lines[:-1] if line["run"] == "early")
    assert early["effect"] == "NON_IDEMPOTENT_WRITE"
    assert early["cause"] == "timeout"
    assert early["expected_version"] > 0
    assert "ledger reconcile" in served.ledger("unknown").out


def test_a_decision_is_never_guessed(served: Served) -> None:
    no_verdict = served.ledger("reconcile", "scripted", "s1", code=2)
    assert "--executed or --not-executed" in no_verdict.err
    assert "Nothing was decided" in no_verdict.err
    no_code = served.ledger("reconcile", "scripted", "s1", "--executed", code=2)
    assert "--reason-code" in no_code.err
    assert any(line.get("run") == "scripted" for line in served.ledger("unknown", "--json").lines)


def test_whoever_drove_the_run_may_not_decide(served: Served) -> None:
    error = _final(
        served, "reconcile", "scripted", "s1", "--executed", "--reason-code", "x",
        "--as", "runtime", code=6,
    )["error"]  # fmt: skip
    assert isinstance(error, dict)
    assert error["reason"] == "ROLE_MISSING"
    assert "--as reviewer" in str(error["do_next"])


def test_not_executed_is_refused_while_the_call_may_still_land(served: Served) -> None:
    error = _final(
        served, "reconcile", "early", "s1", "--not-executed", "--reason-code", "no_receipt", code=6
    )["error"]
    assert isinstance(error, dict)
    assert error["reason"] == "TOO_EARLY"


def test_a_step_that_changed_since_it_was_looked_at_is_not_decided(served: Served) -> None:
    error = _final(
        served, "reconcile", "early", "s1", "--executed", "--reason-code", "x",
        "--expected-version", "0", code=6,
    )["error"]  # fmt: skip
    assert isinstance(error, dict)
    assert error["reason"] == "VERSION_MISMATCH"


def test_a_decision_is_recorded_under_the_reviewers_name_with_its_evidence(served: Served) -> None:
    (served.ledger.folder / "found.txt").write_text("invoice 93 is in the sent folder")
    decided = _final(
        served, "reconcile", "doubtful", "s1", "--executed", "--reason-code", "receipt_found",
        "--reason", "It is in the sent folder", "--evidence", "found.txt",
    )  # fmt: skip
    assert decided["state"] == "RECONCILED_EXECUTED"
    said = served.ledger("show", "doubtful").out
    assert re.search(
        r"RECONCILED_EXECUTED +decided: executed \(receipt_found\) +reviewer \(human\)", said
    )
    again = _final(
        served, "reconcile", "doubtful", "s1", "--executed", "--reason-code", "x", code=6
    )
    assert isinstance(again["error"], dict)


def test_on_a_terminal_what_is_missing_is_asked_for(served: Served) -> None:
    said, code = _on_terminal(
        served.ledger,
        ["reconcile", "asked", "s1"],
        answers=[
            ("yes/no", "maybe"),
            ("yes/no", "yes"),
            ("Reason code", "seen"),
            ("Why", "I saw it"),
        ],
    )
    assert code == 0, said
    assert "RECONCILED_EXECUTED" in said
    assert "send_invoice" in said


def test_colours_are_for_terminals_and_can_be_turned_off(served: Served) -> None:
    coloured, _ = _on_terminal(served.ledger, ["show", "paid"], answers=[])
    assert ESCAPE in coloured
    plain, _ = _on_terminal(served.ledger, ["show", "paid", "--no-color"], answers=[])
    assert ESCAPE not in plain
    asked = CommandLine(served.ledger.folder, {**served.ledger.settings, "NO_COLOR": "1"})
    quiet, _ = _on_terminal(asked, ["show", "paid"], answers=[])
    assert ESCAPE not in quiet
    assert "paid" in quiet


@pytest.mark.parametrize("command", ["runs", "unknown", "show paid", "keys list", "tenants list"])
def test_a_listing_fits_the_terminal_and_no_line_of_it_ends_in_spaces(
    command: str, served: Served
) -> None:
    for columns in (80, 120):
        said, _ = _on_terminal(
            served.ledger, [*command.split(), "--no-color"], answers=[], columns=columns
        )
        lines = said.splitlines()
        assert len(lines) > 2
        assert [line for line in lines if len(line) > columns or line.endswith(" ")] == []
    piped = served.ledger(*command.split()).out.splitlines()
    assert [line for line in piped if line.endswith(" ")] == []
    assert served.ledger(*command.split(), "--json").final


def _on_terminal(
    ledger: CommandLine, arguments: list[str], *, answers: list[tuple[str, str]], columns: int = 80
) -> tuple[str, int]:
    """Run a command on a terminal of its own; each answer is typed when its question stands."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, columns))
    command = ledger.start(*arguments, terminal=theirs)
    os.close(theirs)
    said, seen, left = "", 0, list(answers)
    until_s = time.monotonic() + 60
    while True:
        assert time.monotonic() < until_s, f"it waits for more than was asked: {said}"
        try:
            octets = os.read(ours, 65_536)
        except OSError:
            break  # Linux says EIO when the other side is closed
        if not octets:
            break
        said += octets.decode("utf-8", "replace")
        if left and left[0][0] in said[seen:]:
            seen = len(said)
            os.write(ours, f"{left.pop(0)[1]}\n".encode())
    os.close(ours)
    assert not left, f"it never asked for {left}: {said}"
    return said, command.wait(60)


def test_a_log_is_exported_and_proven_without_the_server(served: Served) -> None:
    ledger = served.ledger
    key, old = ledger.folder / "audit.key", ledger.folder / "old.checkpoint"
    ledger("checkpoint", "--out", str(old))
    key.write_text(ledger("keys", "show").out)
    exported = _final(served, "export", "log")
    assert exported["size"] == _final(served, "checkpoint")["size"]

    def verdict(*arguments: str, code: int) -> str:
        return str(_final(served, "verify", *arguments, code=code)["verdict"])

    pinned = ["--key", str(key)]
    assert verdict("log", *pinned, "--held", str(old), code=0) == "VERIFIED"
    assert verdict("log", *pinned, "--at-least", "3", code=0) == "VERIFIED"
    assert verdict("log", *pinned, code=3) == "INCOMPLETE"
    assert verdict("log", code=4) == "UNVERIFIABLE"
    assert verdict("log", *pinned, "--at-least", "9000", code=5) == "FAILED"
    assert verdict("--key", str(key), "--held", str(old), code=0) == "VERIFIED"
    served.ledger("export", "log", code=2)
    same = ledger("show", "paid", "--from", "log", "--utc").out
    assert same == ledger("show", "paid", "--utc").out


def test_a_changed_byte_of_an_exported_log_is_found(served: Served) -> None:
    ledger = served.ledger
    key = ledger("keys", "show").out.strip()
    ledger("export", "tampered")
    entries = ledger.folder / "tampered" / "tile" / "entries"
    (bundle,) = (path for path in entries.rglob("*") if path.is_file())
    octets = bytearray(bundle.read_bytes())
    at = octets.index(b'"paid"') + 1
    octets[at] = ord("q")
    bundle.write_bytes(octets)
    ended = ledger("verify", "tampered", "--key", key, "--at-least", "1", code=5)
    assert ended.out.startswith("FAILED")
    assert "safe" not in ended.out


def test_a_receipt_verifies_alone_and_a_changed_one_does_not(served: Served) -> None:
    ledger = served.ledger
    key = ledger("keys", "show").out.strip()
    ledger("receipt", "2", "--out", "two.tlog-proof")
    text = (ledger.folder / "two.tlog-proof").read_text()
    assert _final(served, "verify", "two.tlog-proof", "--key", key)["verdict"] == "VERIFIED"
    (ledger.folder / "bad.tlog-proof").write_text(text.replace("index 2", "index 3"))
    assert ledger("verify", "bad.tlog-proof", "--key", key, code=5).out.startswith("FAILED")
    assert ledger("verify", "two.tlog-proof", code=4).out.startswith("UNVERIFIABLE")
    ledger("receipt", code=2)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["verify", "gone", "--key", "x"], 2),
        (["verify", "gone"], 4),
        (["verify", "empty"], 4),
        (["verify", "text.txt"], 4),
        (["verify", "--nonsense"], 2),
        (["verify", ".", "--held", "empty"], 2),
        (["nonsense"], 2),
    ],
)
def test_nothing_empty_or_misspelt_is_ever_valid(
    arguments: list[str], code: int, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("hello")
    CommandLine(tmp_path)(*arguments, code=code)
    assert code != 0


def test_serve_makes_what_is_missing_says_where_and_passes_sigterm_on(tmp_path: Path) -> None:
    ledger = CommandLine(tmp_path)
    serving = ledger.start("serve", "--listen", "127.0.0.1:0", "--data", "new", "--json")
    try:
        assert serving.stdout is not None
        said = Ended(0, serving.stdout.readline(), "").final
        assert said["event"] == "serving"
        server = psutil.Process(said["pid"])
        assert ledger("health", "--server", said["address"]).code == 0
        assert (tmp_path / "new" / "tokens" / "reviewer").stat().st_mode & 0o077 == 0
        serving.send_signal(signal.SIGTERM)
        out, _ = serving.communicate(timeout=60)
        assert serving.returncode == 0
        assert Ended(0, out, "").final == {"event": "ended", "status": 0}
        assert not server.is_running()
    finally:
        serving.kill()
        serving.wait()


def test_a_killed_serve_takes_its_server_along_and_the_next_one_serves_what_was_kept(
    tmp_path: Path,
) -> None:
    ledger = CommandLine(tmp_path)
    origins = []
    for _ in range(2):
        serving = ledger.start("serve", "--listen", "127.0.0.1:0", "--data", "new", "--json")
        try:
            assert serving.stdout is not None
            said = Ended(0, serving.stdout.readline(), "").final
            server = psutil.Process(said["pid"])
            got = ledger("checkpoint", "--server", said["address"], "--data", "new")
            origins.append(got.out.splitlines()[0])
            serving.kill()
            assert psutil.wait_procs([server], timeout=60)[0] == [server]
        finally:
            serving.kill()
            serving.communicate()
    assert origins[0] == origins[1]


def test_a_server_that_cannot_start_is_said_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = CommandLine(tmp_path)("serve", "--listen", "127.0.0.1:0", "--data", "file", code=7)
    assert "before it served" in ended.err


def test_keys_and_tenants_are_made_and_listed_without_a_server(tmp_path: Path) -> None:
    ledger = CommandLine(tmp_path)
    key = ledger("keys", "new", "--json").final["kek"]
    listed = ledger("keys", "list", "--json").lines
    assert listed[0]["id"] == key
    assert listed[0]["in_use"] is True
    applied = ledger("migrate", "--json").final["applied"]
    assert applied
    assert ledger("migrate", "--json").final == {"applied": []}
    ledger("tenants", "new", "acme", "--origin", "audit.example/agents")
    assert ledger("tenants", "list", "--json").lines[0] == {
        "tenant": "acme",
        "origin": "audit.example/agents",
    }
    assert "exists" in ledger("tenants", "new", "acme", code=6).err
    ledger("tenants", "new", "other", "--origin", "Not An Origin", code=2)


def test_a_pin_is_refused_for_what_the_logs_key_did_not_sign_and_for_what_it_does_not_hold(
    tmp_path: Path,
) -> None:
    ledger = CommandLine(tmp_path)
    for name in ("own", "other"):
        server = LedgerServer(tmp_path / name).start()
        try:
            with Ledger.connect(server.address, token=server.token()) as client:
                with client.run("r1", holder="agent"):
                    pass
                (tmp_path / f"{name}.checkpoint").write_text(client.checkpoint().note)
            server.stop()
        finally:
            server.close()
    pin = ("--data", "own", "--by", "operator-7")
    said = (tmp_path / "own.checkpoint").read_text()
    (tmp_path / "grown.checkpoint").write_text(re.sub(r"\n(\d+)\n", "\n9000\n", said, count=1))
    (tmp_path / "noise").write_bytes(b"\xff\x00")
    for wrong in ("other.checkpoint", "grown.checkpoint", "noise"):
        ended = ledger("checkpoint", "pin", wrong, *pin, code=6)
        assert "The mark is as it was" in ended.err, wrong
        assert not list((tmp_path / "own" / "mark").glob("*.pins")), wrong
    absent = ledger("checkpoint", "pin", "gone", *pin, "--json", code=2)
    assert absent.final["error"]["safe_now"] == "Nothing was changed."


def test_a_missing_token_says_where_it_was_looked_for(tmp_path: Path) -> None:
    ended = CommandLine(tmp_path)("runs", "--server", "127.0.0.1:1", code=8)
    assert "ledger-data/tokens/reviewer" in ended.err
    assert "--data" in ended.err


BASE_ONLY = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pydantic_settings", "eventsourcing", "structlog"}:
            raise ModuleNotFoundError("absent", name=name)
        return None
sys.meta_path.insert(0, Absent())
sys.argv = ["ledger", *sys.argv[1:]]
from ledger.cli import main
main()
"""


@pytest.mark.parametrize(
    "command",
    [
        "serve",
        *(pytest.param(it, marks=pytest.mark.long) for it in ("demo", "migrate", "tenants list")),
    ],
)
def test_a_command_that_needs_the_server_extra_names_it(command: str, tmp_path: Path) -> None:
    ledger = CommandLine(tmp_path)
    run = [ledger.command()[0], "-c", BASE_ONLY, *command.split()]
    ended = ledger.run(run, code=9)
    assert "agent-effects-ledger[server]" in ended.err
    assert f"`ledger {command}`" in ended.err
    assert not (tmp_path / "ledger-demo").exists()
