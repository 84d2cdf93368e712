"""The demo as a reader of the README meets it: killed runtimes, a table, and what to paste next."""

from __future__ import annotations

import os
import re
import shlex
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.command_line import ROOT, CommandLine, Ended
from tests.support.server_process import LedgerServer

RETAIL = ROOT.parent / "shared" / "data" / "agent-actions" / "retail.jsonl"
KEYS = [
    "actions",
    "effects_once",
    "effects_zero",
    "effects_doubled",
    "kills",
    "unknowns_settled",
    "appends_per_second",
    "verdict",
]


@dataclass(frozen=True, slots=True)
class Shown:
    """A demo that has ended, and where it was run."""

    ledger: CommandLine
    ended: Ended

    @property
    def folder(self) -> Path:
        """The demo's own folder."""
        (only,) = (self.ledger.folder / "ledger-demo").iterdir()
        return only


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    ledger = CommandLine(tmp_path_factory.mktemp("demo"))
    return Shown(ledger, ledger("demo"))


def _number(text: str, label: str) -> int:
    (found,) = re.findall(rf"^ *{re.escape(label)} +([\d,]+)$", text, re.MULTILINE)
    return int(found.replace(",", ""))


def test_every_effect_happened_once_though_the_runtime_was_killed_again_and_again(
    shown: Shown,
) -> None:
    said = shown.ended.out
    assert _number(said, "actions asked for") == 30
    assert _number(said, "effects that happened once") == 30
    assert _number(said, "effects that never happened") == 0
    assert _number(said, "effects that happened twice") == 0
    assert _number(said, "runtime killed by SIGKILL") >= 5
    for window in ("before start", "inside the tool, before its effect"):
        assert _number(said, window) >= 1
    for window in ("inside the tool, after its effect", "after the tool, before completed"):
        assert _number(said, window) >= 1
    assert re.search(r"verified offline +VERIFIED$", said, re.MULTILINE)


def test_unknowns_were_settled_both_ways_and_an_agent_that_asked_again_was_told(
    shown: Shown,
) -> None:
    said = shown.ended.out
    executed = _number(said, "executed, by the shop's receipt")
    redone = _number(said, "not executed, then done under a new key")
    assert executed >= 1
    assert redone >= 1
    assert _number(said, "unknown outcomes settled") == executed + redone
    assert _number(said, "asked again under a new name") >= 1
    assert _number(said, "asked again under a new name") == _number(
        said, "and told of the earlier try"
    )


def test_plain_output_holds_no_escape_codes(shown: Shown) -> None:
    assert "\x1b" not in shown.ended.out + shown.ended.err


def test_the_three_commands_to_go_on_with_work_when_pasted(shown: Shown) -> None:
    commands = re.findall(r"^  (ledger .+)$", shown.ended.out, re.MULTILINE)
    assert [shlex.split(command)[1] for command in commands] == ["show", "verify", "receipt"]
    show, verify, receipt = (
        shown.ledger.run(["sh", "-c", command], code=0) for command in commands
    )
    assert "RECONCILED" in show.out
    assert verify.out.startswith("VERIFIED to size ")
    assert receipt.out.startswith("c2sp.org/tlog-proof@v1\n")


def test_what_the_auditor_holds_stands_outside_the_servers_folder(shown: Shown) -> None:
    held = sorted(path.name for path in (shown.folder / "held").iterdir())
    assert held[-1] == "verifier.key"
    assert len(held) >= 6
    assert not list((shown.folder / "data").rglob("*.checkpoint"))


def test_no_process_of_the_demo_is_left(shown: Shown) -> None:
    assert not _processes_of(shown.ledger.folder)


@pytest.mark.long
def test_a_demo_on_a_running_server_leaves_it_running_and_ends_with_one_object(
    tmp_path: Path,
) -> None:
    server = LedgerServer(tmp_path / "server").start()
    try:
        ledger = CommandLine(tmp_path)
        ended = ledger(
            "demo",
            "--server",
            server.address,
            "--data",
            str(server.folder),
            "--seed",
            "2",
            "--json",
        )
        assert list(ended.final) == KEYS
        assert ended.final["actions"] == ended.final["effects_once"] == 30
        assert ended.final["effects_zero"] == ended.final["effects_doubled"] == 0
        assert ended.final["kills"] >= 5
        assert ended.final["unknowns_settled"] >= 2
        assert ended.final["appends_per_second"] > 0
        assert ended.final["verdict"] == "VERIFIED"
        assert server.is_running
        assert ledger("health", "--server", server.address).code == 0
    finally:
        server.close()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_stops_everything_it_started(
    number: signal.Signals, tmp_path: Path
) -> None:
    ledger = CommandLine(tmp_path)
    demo = ledger.start("demo")
    try:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "restarted" in line:
                break
        assert len(_processes_of(tmp_path)) >= 2, "a server and a runtime are expected to run"
        demo.send_signal(number)
        _, said = demo.communicate(timeout=60)
        assert demo.returncode == 130
        assert "interrupted" in said
        assert "safe now" in said
        assert not _processes_of(tmp_path)
    finally:
        _end(demo.pid)
        demo.wait()


@pytest.mark.long
def test_a_killed_demo_takes_its_server_and_runtime_along_and_the_next_one_works(
    tmp_path: Path,
) -> None:
    ledger = CommandLine(tmp_path)
    demo = ledger.start("demo")
    try:
        assert demo.stdout is not None
        next(line for line in demo.stdout if "restarted" in line)
        assert len(_processes_of(tmp_path)) >= 3, "demo, server and runtime are expected to run"
        demo.kill()
        demo.wait()
        _wait_until_gone(tmp_path)
        (killed,) = (tmp_path / "ledger-demo").iterdir()
        serving = ledger.start("serve", "--listen", "127.0.0.1:0", "--data", str(killed / "data"))
        try:
            assert serving.stdout is not None
            address = serving.stdout.readline().split()[2]
            runs = ledger("runs", "--server", address, "--data", str(killed / "data"), "--json")
            assert runs.final["count"] > 0
        finally:
            serving.terminate()
            serving.communicate(timeout=60)
        assert ledger("demo", "--json").final["verdict"] == "VERIFIED"
    finally:
        _end(demo.pid)
        demo.wait()


@pytest.mark.long
def test_a_demo_whose_server_dies_says_so_and_where_its_log_is(tmp_path: Path) -> None:
    demo = CommandLine(tmp_path).start("demo")
    try:
        assert demo.stdout is not None
        next(line for line in demo.stdout if "restarted" in line)
        (server,) = (
            pid for pid in _processes_of(tmp_path) if "server" in psutil.Process(pid).cmdline()
        )
        os.kill(server, signal.SIGKILL)
        _, said = demo.communicate(timeout=100)
        assert demo.returncode == 7
        assert "the server ended by itself with status -9" in said
        assert "server.log" in said
        assert not _processes_of(tmp_path)
    finally:
        _end(demo.pid)
        demo.wait()


def test_actions_that_cannot_be_read_start_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"run": "r", "steps": [{"tool": "t"}]}\n')
    ended = CommandLine(tmp_path)("demo", "--actions", "a.jsonl", code=2)
    assert "line 1" in ended.err
    assert not (tmp_path / "ledger-demo").exists()


@pytest.fixture
def retail() -> Path:
    if not RETAIL.exists():
        pytest.skip("the folder shared/data does not stand beside the checkout")
    return RETAIL


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_demo_works_through_every_run_of_real_agents(retail: Path, tmp_path: Path) -> None:
    ledger = CommandLine(tmp_path)
    demo = ledger.start("demo", "--actions", str(retail), "--json")
    said, faults = demo.communicate(timeout=840)
    assert demo.returncode == 0, said + faults
    final = Ended(0, said, faults).final
    assert list(final) == KEYS
    assert final["actions"] == final["effects_once"] == 793
    assert final["effects_zero"] == final["effects_doubled"] == 0
    assert final["kills"] >= 5
    assert final["verdict"] == "VERIFIED"


def _processes_of(folder: Path) -> list[int]:
    """Processes that name the folder on their command line or work with it by their settings."""
    found = []
    for process in psutil.process_iter():
        try:
            told = " ".join([*process.cmdline(), process.environ().get("LEDGER_DATA", "")])
            if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                mine = str(folder) in told or process.cwd() == str(folder)
                if mine and "ledger" in told:
                    found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def _wait_until_gone(folder: Path) -> None:
    until_s = time.monotonic() + 60
    while left := _processes_of(folder):
        assert time.monotonic() < until_s, [psutil.Process(pid).cmdline() for pid in left]
        time.sleep(0.05)  # pause: between looks at the processes


def _end(pid: int) -> None:
    """Nothing of a failed test goes on running."""
    until_s = time.monotonic() + 10
    while psutil.pid_exists(pid) and time.monotonic() < until_s:
        try:
            process = psutil.Process(pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return
            for child in process.children(recursive=True):
                child.kill()
            process.kill()
        except psutil.NoSuchProcess:
            return
