"""Ways out of a body that no with block foresees: the interpreter's end, an interrupt, a child.

Each agent is a process of its own that acts once in the world. Whatever way it leaves, its write is
UNKNOWN or what it said of it, never FAILED and never lost, and nobody does it a second time.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from ledger.client import OutcomeUnknown, StepState
from tests.crash.outside import World
from tests.e2e.sdk.conftest import Place
from tests.support.checkouts import ROOT

END_S: Final = 60.0
UNKNOWN: Final = StepState.UNKNOWN
WAYS: Final = {
    ("blocking", "sys.exit"): UNKNOWN,
    ("blocking", "interrupt"): UNKNOWN,
    ("blocking", "os._exit"): UNKNOWN,
    ("blocking", "a child that exits"): StepState.SUCCEEDED,
    ("blocking", "a report at exit"): StepState.SUCCEEDED,
    ("asyncio", "sys.exit"): UNKNOWN,
    ("asyncio", "interrupt"): UNKNOWN,
    ("asyncio", "os._exit"): UNKNOWN,
    ("asyncio", "a child that exits"): StepState.SUCCEEDED,
}
AT_ONCE: Final = ("sys.exit", "interrupt")
"""Ways that tell the ledger before the process ends; of the others it finds out itself."""


def leave(place: Place, kind: str, way: str, folder: Path) -> tuple[str, subprocess.Popen[str]]:
    """An agent that leaves that way; its run, and its process."""
    run = place.named(f"{kind}-{way}".replace(" ", "-"))
    token = place.token_file("runtime")
    given = [place.server.address, str(token), kind, way, run, str(folder)]
    return run, subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.sdk.leaving_agent", *given],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )


def state_of(place: Place, run: str) -> StepState:
    (step,) = place.client("reviewer").get_run(run).steps
    return step.state


def wait_for_state(place: Place, run: str, wanted: StepState) -> None:
    """Until the ledger says so; a lease and an operation deadline have to pass."""
    deadline = time.monotonic() + END_S
    while (found := state_of(place, run)) is not wanted:
        assert time.monotonic() < deadline, f"{run}: {found}"
        time.sleep(0.1)  # pause: between looks at the step


def run_again(place: Place, run: str) -> None:
    """An heir asks for the step; its tool must not run."""
    with place.client().resume(run, holder="heir", wait_s=END_S) as driven, driven.effect("s1"):
        raise AssertionError("the tool was run again")


def verify_left(place: Place, kind: str, way: str, folder: Path) -> None:
    """The agent ends, its effect happened once, and the ledger says what can be said."""
    run, process = leave(place, kind, way, folder)
    _, printed = process.communicate(timeout=END_S)
    verify_ended(place, kind, way, run, printed)
    assert len(World(folder).keys_of(run)["pay"]) == 1


def verify_ended(place: Place, kind: str, way: str, run: str, printed: str) -> None:
    wanted = WAYS[kind, way]
    if way in AT_ONCE:
        assert state_of(place, run) is wanted, printed
        assert place.types(run)[-2:] == ["step.unknown", "lease.released"]
    wait_for_state(place, run, wanted)
    kinds = place.types(run)
    assert kinds.count("step.started") == 1
    if wanted is StepState.SUCCEEDED:
        last = "lease.released" if way == "a report at exit" else "run.closed"
        assert kinds.count("step.completed") == kinds.count(last) == 1, printed
        assert "Traceback" not in printed
    else:
        assert "step.completed" not in kinds, printed
        assert "run.closed" not in kinds
        with pytest.raises(OutcomeUnknown):
            run_again(place, run)


@pytest.mark.parametrize(("kind", "way"), [("blocking", "sys.exit"), ("asyncio", "interrupt")])
def test_an_interpreter_that_ends_inside_a_body_leaves_its_write_unknown(
    place: Place, tmp_path: Path, kind: str, way: str
) -> None:
    verify_left(place, kind, way, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "way"), WAYS)
def test_no_way_out_of_a_body_loses_a_write_or_does_it_twice(
    place: Place, tmp_path: Path, kind: str, way: str
) -> None:
    verify_left(place, kind, way, tmp_path)
