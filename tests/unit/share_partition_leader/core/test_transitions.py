"""Every state with every event."""

from __future__ import annotations

from itertools import product

import pytest

from sharebroker_protocol.model import AckType, RecordState
from sharebroker_server.share_partition_leader.core.transitions import (
    EVENT_OF_ACK,
    TRANSITIONS,
    RecordEvent,
    after,
    after_failed_delivery,
)
from tests.testkit.tables import each

LEGAL = {
    ("AVAILABLE", "ACQUIRE"): "ACQUIRED",
    ("AVAILABLE", "COMPACT"): "ARCHIVED",
    ("ACQUIRED", "GAP"): "ARCHIVED",
    ("ACQUIRED", "ACCEPT"): "ACKNOWLEDGED",
    ("ACQUIRED", "RELEASE"): "AVAILABLE",
    ("ACQUIRED", "REJECT"): "ARCHIVED",
    ("ACQUIRED", "RENEW"): "ACQUIRED",
    ("ACQUIRED", "UNDO"): "AVAILABLE",
    ("ACQUIRED", "LOCK_TIMEOUT"): "AVAILABLE",
    ("ACQUIRED", "EXHAUST"): "ARCHIVED",
    ("ACQUIRED", "ABORT"): "ARCHIVED",
    ("ACQUIRED", "EXPIRE"): "ARCHIVED",
    ("ARCHIVING", "LETTER_WRITTEN"): "ARCHIVED",
}


@each("state, event", [*product(RecordState, RecordEvent)])
def test_every_pair_is_in_the_table_or_illegal(state: RecordState, event: RecordEvent) -> None:
    target = TRANSITIONS.get((state, event))
    assert (target.name if target is not None else None) == LEGAL.get((state.name, event.name))


@each("state, event", [*TRANSITIONS])
def test_dead_letters_change_the_target_of_failures_only(state: RecordState, event: RecordEvent) -> None:
    expected = (
        "ARCHIVING" if event.name in ("REJECT", "EXHAUST", "EXPIRE") else TRANSITIONS[state, event].name
    )
    assert after(state, event, dead_letters=True).name == expected
    assert after(state, event, dead_letters=False) is TRANSITIONS[state, event]


@pytest.mark.parametrize(
    ("state", "wire_id"),
    [("AVAILABLE", 0), ("ACQUIRED", 1), ("ACKNOWLEDGED", 2), ("ARCHIVING", 3), ("ARCHIVED", 4)],
)
def test_states_have_kafkas_ids(state: str, wire_id: int) -> None:
    assert RecordState[state] == wire_id


@pytest.mark.parametrize(
    ("kind", "wire_id"), [("GAP", 0), ("ACCEPT", 1), ("RELEASE", 2), ("REJECT", 3), ("RENEW", 4)]
)
def test_acknowledge_types_have_kafkas_ids_and_their_own_event(kind: str, wire_id: int) -> None:
    assert AckType[kind] == wire_id
    assert EVENT_OF_ACK[wire_id] is RecordEvent[kind]


@each("event", [RecordEvent.RELEASE, RecordEvent.LOCK_TIMEOUT])
@each("count, limit", [*product(range(1, 7), (2, 3, 5))])
@each("letters", [False, True])
def test_last_delivery_ends_archived(event: RecordEvent, count: int, limit: int, letters: bool) -> None:
    ended = RecordState.ARCHIVING if letters else RecordState.ARCHIVED
    expected = ended if count >= limit else RecordState.AVAILABLE
    assert after_failed_delivery(event, count, limit, dead_letters=letters) is expected
