"""The hand-written writer of event bytes equals the encoder of the whole event."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ledger.core import canonical, events
from ledger.core.body import Body
from ledger.core.canonical import JsonObject
from ledger.core.envelope import check_event
from ledger.core.ids import PrincipalId, RequestId
from ledger.core.run_events import Actor, LogEvent, SealedRef
from ledger.core.vocabulary import ActorKind, Auth, EffectClass, Outcome, StepState, Verdict

ACTOR = Actor(PrincipalId("runtime-1"), ActorKind.RUNTIME, Auth.EMBEDDED, "drive")
REQUEST = RequestId("0192f0c1-2345-7abc-8def-0123456789ab")
BODIES: list[Body] = [
    events.RunOpened(),
    events.RunOpened(
        initiator="user-1",
        ceiling=EffectClass.PROPOSE,
        parent="run-0",
        labels=(("a", "1"), ("b", "2")),
    ),
    events.StepPlanned(
        step="s1",
        tool="refund",
        version="1",
        effect=EffectClass.NON_IDEMPOTENT_WRITE,
        key="d:abc",
        after=("s0", "s-1"),
        supersedes="k0",
    ),
    events.StepStarted(
        step="s1", attempt=2, token=3, process="p" * 16, deadline=1_700_000_000_000_001, key="k"
    ),
    events.StepCompleted(
        step="s1", attempt=1, token=1, outcome=Outcome.NO_EFFECT, state=StepState.UNKNOWN
    ),
    events.StepReconciled(
        step="s1",
        verdict=Verdict.NOT_EXECUTED,
        reason_code="no_receipt",
        expected_version=0,
        before=StepState.UNKNOWN,
        attempt=1,
        supersedes=0,
        supersedable=True,
    ),
    events.EvidenceAttached(kind="note", contradiction=True, replayed=("r", "s")),
]
MEDIA_TYPES = ["application/json", 'text/plain; name="a b"', r'text/plain; name="a\"b"']


def _whole(event: LogEvent) -> JsonObject:
    whole: JsonObject = {
        "actor": event.actor.to_json(),
        "body": event.body.to_json(),
        "payloads": [
            {
                "alg": "sha256-salt32",
                "commitment": ref.commitment,
                "id": ref.id,
                "key": ref.key_id,
                "media_type": ref.media_type,
                "name": ref.name,
            }
            for ref in event.payloads
        ],
        "request": {"digest": event.digest, "id": event.request_id, "part": event.part},
        "type": event.body.TYPE,
    }
    if event.trace:
        whole["trace"] = event.trace
    return whole


@pytest.mark.parametrize("trace", ["", f"00-{'1' * 32}-{'2' * 16}-01"])
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.TYPE)
def test_event_bytes_are_those_of_the_encoder(body: Body, count: int, trace: str) -> None:
    event = LogEvent(
        originator_id="o#_log",
        originator_version=1,
        timestamp=datetime.now(UTC),
        body=body,
        actor=ACTOR,
        request_id=REQUEST,
        digest="ab" * 32,
        part=7,
        index=3,
        recorded_us=5,
        payloads=[
            SealedRef("0" * 32, "arguments", "1" * 32, media_type, "2" * 64)
            for media_type in MEDIA_TYPES[:count]
        ],
        trace=trace,
    )
    whole = _whole(event)
    check_event(whole, events.check_body)
    assert event.to_bytes() == canonical.encode(whole)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.TYPE)
def test_a_body_is_read_as_it_was_written(body: Body) -> None:
    assert type(body).from_json(body.to_json()) == body
