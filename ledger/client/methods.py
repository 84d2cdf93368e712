"""The calls of the wire that the SDK makes, by path and answer type. A test holds them to the
descriptors.
"""

from __future__ import annotations

from typing import Final

from ledger.client.flow import Method
from ledger.v1 import log_service_pb2 as logs
from ledger.v1 import review_service_pb2 as reviews
from ledger.v1 import run_service_pb2 as runs

_RUNS: Final = "/ledger.v1.RunService/"
_REVIEWS: Final = "/ledger.v1.ReviewService/"
_LOGS: Final = "/ledger.v1.LogService/"

OPEN_RUN: Final = Method(_RUNS + "OpenRun", runs.OpenRunResponse)
ACQUIRE_LEASE: Final = Method(_RUNS + "AcquireLease", runs.AcquireLeaseResponse)
RENEW_LEASE: Final = Method(_RUNS + "RenewLease", runs.RenewLeaseResponse, safe=True)
RELEASE_LEASE: Final = Method(_RUNS + "ReleaseLease", runs.ReleaseLeaseResponse)
BREAK_LEASE: Final = Method(_RUNS + "BreakLease", runs.BreakLeaseResponse)
PLAN_STEPS: Final = Method(_RUNS + "PlanSteps", runs.PlanStepsResponse, largest="steps")
START_STEP: Final = Method(_RUNS + "StartStep", runs.StartStepResponse)
COMPLETE_STEP: Final = Method(_RUNS + "CompleteStep", runs.CompleteStepResponse, largest="result")
MARK_UNKNOWN: Final = Method(_RUNS + "MarkUnknown", runs.MarkUnknownResponse, largest="note")
WITHDRAW_STEP: Final = Method(_RUNS + "WithdrawStep", runs.WithdrawStepResponse)
ATTACH_EVIDENCE: Final = Method(
    _RUNS + "AttachEvidence", runs.AttachEvidenceResponse, largest="evidence"
)
REQUEST_CANCEL: Final = Method(_RUNS + "RequestCancel", runs.RequestCancelResponse)
CLOSE_RUN: Final = Method(_RUNS + "CloseRun", runs.CloseRunResponse)
SUBMIT: Final = Method(_RUNS + "Submit", runs.SubmitResponse, largest="commands")
GET_RESUME_STATE: Final = Method(_RUNS + "GetResumeState", runs.GetResumeStateResponse, safe=True)
GET_RUN: Final = Method(_RUNS + "GetRun", runs.GetRunResponse, safe=True)
LIST_RUNS: Final = Method(_RUNS + "ListRuns", runs.ListRunsResponse, safe=True)
WATCH_RUN: Final = Method(_RUNS + "WatchRun", runs.WatchRunResponse, safe=True)

LIST_UNKNOWNS: Final = Method(_REVIEWS + "ListUnknowns", reviews.ListUnknownsResponse, safe=True)
RECONCILE: Final = Method(_REVIEWS + "Reconcile", reviews.ReconcileResponse, largest="evidence")
PROPOSE_DECISION: Final = Method(
    _REVIEWS + "ProposeDecision", reviews.ProposeDecisionResponse, largest="evidence"
)
ALLOW_DOWNGRADE: Final = Method(_REVIEWS + "AllowDowngrade", reviews.AllowDowngradeResponse)

GET_CHECKPOINT: Final = Method(_LOGS + "GetCheckpoint", logs.GetCheckpointResponse, safe=True)
LIST_ENTRIES: Final = Method(_LOGS + "ListEntries", logs.ListEntriesResponse, safe=True)
FOLLOW_ENTRIES: Final = Method(_LOGS + "FollowEntries", logs.FollowEntriesResponse, safe=True)
LIST_RUN_ENTRIES: Final = Method(_LOGS + "ListRunEntries", logs.ListRunEntriesResponse, safe=True)
GET_INCLUSION_PROOF: Final = Method(
    _LOGS + "GetInclusionProof", logs.GetInclusionProofResponse, safe=True
)
GET_CONSISTENCY_PROOF: Final = Method(
    _LOGS + "GetConsistencyProof", logs.GetConsistencyProofResponse, safe=True
)
GET_RECEIPT: Final = Method(_LOGS + "GetReceipt", logs.GetReceiptResponse, safe=True)
GET_PAYLOAD: Final = Method(_LOGS + "GetPayload", logs.GetPayloadResponse, safe=True)
