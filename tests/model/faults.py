"""Builds of the product with one fault each, planted into its real source while a test runs.

A fault is a small change of the text of named functions. The changed text is compiled in the
function's own module, and its code takes the place of the real one wherever it is called from;
afterwards the real one is back. Nothing of it stands in the product.
"""

from __future__ import annotations
import __future__

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from ledger.batch import Batch
from ledger.committed import Memory
from ledger.core.decide import decisions, guards
from ledger.sequencer import LogSequencer


@dataclass(frozen=True, slots=True)
class Change:
    """In the text of `function`, what stands once as `old` is `new`."""

    function: Callable[..., Any]
    old: str
    new: str


FAULTS: dict[str, tuple[Change, ...]] = {
    "acknowledged before commit": (
        Change(
            LogSequencer._try,
            "        except CommitUnknown:\n",
            "        except StoreUnavailable:\n"
            "            if result is None:\n"
            "                raise\n"
            "            self._memory.forget()\n"
            "            return list(result.answers)\n"
            "        except CommitUnknown:\n",
        ),
    ),
    "stale token accepted": (
        Change(guards.driven_run, "if token != lease.token:", "if token > lease.token:"),
    ),
    "claim not atomic": (Change(Memory.others_appended, "self.claims = {}", "pass"),),
    "duplicate request appended": (
        Change(Batch._decide, "earlier = known.get(at)", "earlier = None"),
        Change(Batch._write, "appending.insert(REQUESTS,", "appending.upsert(REQUESTS,"),
    ),
    "not_executed before the deadline": (
        Change(decisions._check_time, "if draft.now_us >= from_us:", "if from_us >= 0:"),
    ),
}


@contextmanager
def planted(fault: str) -> Iterator[None]:
    """The product has that fault inside the block."""
    real = [(_function(change), _function(change).__code__) for change in FAULTS[fault]]
    try:
        for change in FAULTS[fault]:
            _function(change).__code__ = _twin(change).__code__
        yield
    finally:
        for function, code in real:
            function.__code__ = code


def _function(change: Change) -> FunctionType:
    assert isinstance(change.function, FunctionType)
    return change.function


def _twin(change: Change) -> FunctionType:
    function = _function(change)
    text = inspect.getsource(function)
    if text.count(change.old) != 1:
        raise LookupError(f"{function.__qualname__} does not hold once: {change.old}")
    changed = textwrap.dedent(text.replace(change.old, change.new))
    flags = __future__.annotations.compiler_flag
    code = compile(changed, inspect.getfile(function), "exec", flags=flags)
    made: dict[str, Any] = {}
    exec(code, vars(sys.modules[function.__module__]), made)  # noqa: S102 - our own text
    twin = made[function.__name__]
    assert isinstance(twin, FunctionType)
    return twin
