"""Formats, section 3: a log whose history was rewound takes no appends, whoever asks for them."""

from __future__ import annotations

from ledger.core.commands import AcquireLease, OpenRun
from ledger.core.ids import HolderName, RunId
from ledger.failures import Failure, FailureKind
from ledger.sweep import PAGE
from tests.support.driving import driven
from tests.support.in_process import P1, LedgerInProcess

_REWOUND = Failure(FailureKind.HISTORY_REWOUND)


def test_a_log_that_was_closed_is_not_appended_to_by_the_sweep_either(
    ledger: LedgerInProcess,
) -> None:
    driver = driven(ledger)
    driver.started("s", operation_s=1)
    ledger.replicas[0].sequencer.close_log(ledger.tenant, FailureKind.HISTORY_REWOUND)
    before = ledger.types()
    ledger.clock.advance(3600)
    assert ledger.sweep() == 1
    assert ledger.submit(ledger.request(OpenRun(RunId("run-2")))) == [_REWOUND]
    assert ledger.types() == before


def test_a_sweep_that_is_refused_asks_again_at_its_next_turn_only(ledger: LedgerInProcess) -> None:
    runs = [RunId(f"run-{number}") for number in range(PAGE + 1)]
    ledger.submit(
        *(ledger.request(OpenRun(run)) for run in runs),
        *(ledger.request(AcquireLease(run, HolderName("host-1"), P1)) for run in runs),
    )
    ledger.replicas[0].sequencer.close_log(ledger.tenant, FailureKind.HISTORY_REWOUND)
    ledger.clock.advance(3600)
    assert ledger.sweep() == PAGE
