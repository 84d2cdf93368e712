"""The contract's words as protobuf numbers, each list whole."""

from __future__ import annotations

from typing import Any, Final

from ledger.v1 import run_service_pb2 as pb
from ledger.v1 import types_pb2


def _numbers(enum: Any, prefix: str) -> dict[str, Any]:
    """Name without its prefix to number, for every value but the unspecified one."""
    return {name.removeprefix(prefix): number for name, number in enum.items() if number}


STATE: Final = _numbers(types_pb2.StepState, "STEP_STATE_")
OUTCOME: Final = _numbers(types_pb2.Outcome, "OUTCOME_")
EFFECT_CLASS: Final = _numbers(types_pb2.EffectClass, "EFFECT_CLASS_")
STATUS: Final = _numbers(types_pb2.RunStatus, "RUN_STATUS_")
AVAILABILITY: Final = _numbers(types_pb2.Availability, "AVAILABILITY_")
DISPOSITION: Final = _numbers(pb.Disposition, "DISPOSITION_")
REASON: Final = _numbers(types_pb2.Reason, "REASON_")
