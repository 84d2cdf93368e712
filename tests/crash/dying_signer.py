"""Signs in children that are killed, each a few steps later than the one before.

    STORE_URL=... python -m tests.crash.dying_signer FOLDER STRIDE

Steps are counted, not listed: every call between the parts of signing, and to the disk. A child
appends to the log, signs, and kills itself at its step with SIGKILL. After each death a fresh child
looks at what is left, and signs. Ends when a child lives through; prints how many died.
The store's address may hold a password, and an argument could be read by every user of the machine.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

from ledger.core.checkpoint import open_checkpoint
from ledger.core.merkle import EMPTY_FRONTIER, leaf_hash
from ledger.core.note_key import VerifierKey
from ledger.log_keys import LogKeys
from ledger.marks import Marks
from ledger.signing import Checkpoints
from ledger.store.interface import Store
from ledger.store.opening import open_store
from ledger.store.rows import blob
from ledger.store.tables import ENTRIES
from tests.support.logs import LOG, events, write

_COUNTED: Final = {
    # When the signer goes from one part of its work to the next, and what touches the disk.
    "signing.py": {"call", "return"},
    "marks.py": {"call", "return"},
    "keyring.py": {"c_call", "c_return"},
}
_STEPS_MAX: Final = 500


def main() -> int:
    """Kills children until one lives to the end. Status 1: something was left broken."""
    url, folder, stride = os.environ["STORE_URL"], Path(sys.argv[1]), int(sys.argv[2])
    for deaths, step in enumerate(range(1, _STEPS_MAX, stride)):
        died = _child(partial(_sign_and_die, folder=folder, step=step), url)
        if _child(partial(_look, folder=folder), url) != 0:
            sys.stderr.write(f"after a death at step {step}\n")
            return 1
        if died == 0:
            sys.stdout.write(f"{deaths}\n")
            return 0
        if died != -signal.SIGKILL:
            sys.stderr.write(f"at step {step} the child ended with {died}\n")
            return 1
    return 1


def _child(do: Callable[[Store], None], url: str) -> int:
    """Runs it in a forked child; answers its exit status, or minus the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            do(open_store(url))
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _checkpoints(store: Store, folder: Path) -> Checkpoints:
    return Checkpoints(store, keys=LogKeys(folder / "keys"), marks=Marks(folder / "mark"))


def _sign_and_die(store: Store, *, folder: Path, step: int) -> None:
    write(store, events(runs=1, steps=1, first=step))
    left = step

    def count(frame: FrameType, kind: str, argument: Any) -> None:
        nonlocal left
        code = frame.f_code
        counted = kind in _COUNTED.get(os.path.basename(code.co_filename), ())
        # A store writes at the end of its block, which is entered before and left after a commit.
        if counted or (code.co_name in {"upsert", "__exit__"} and kind in {"call", "return"}):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    checkpoints = _checkpoints(store, folder)
    sys.setprofile(count)
    checkpoints.checkpoint(LOG)
    sys.setprofile(None)


def _look(store: Store, *, folder: Path) -> None:
    """The mark is whole, what was published is one history, and signing goes on."""
    checkpoints = _checkpoints(store, folder)
    with Marks(folder / "mark").held(LOG.origin) as held:
        mark = held.read()
    with store.read() as reading:
        rows = reading.page(ENTRIES, equal={"log": LOG.number}, order=("idx",), limit=100_000)
    published = checkpoints.published(LOG, limit=3)
    again = checkpoints.checkpoint(LOG)
    key = VerifierKey.parse(again.verifier_key)
    leaves = [leaf_hash(blob(row[5])) for row in rows]
    heads = [open_checkpoint(one.note, log_keys=[key]).checkpoint for one in [*published, again]]
    if mark is None or any(head.size > mark.size for head in heads[:-1]):
        raise AssertionError("something was signed that the mark does not hold")
    for head in [*heads, mark]:
        if EMPTY_FRONTIER.extend(leaves[: head.size]).root() != head.root:
            raise AssertionError(f"another history at size {head.size}")
    if heads[-1].size != len(rows):
        raise AssertionError("the new checkpoint does not hold everything")


if __name__ == "__main__":
    sys.exit(main())
