"""Messages of the share coordinator, and the values of its core."""

from __future__ import annotations

import pytest

from sharebroker_protocol.model import StateBatch
from sharebroker_server.persister.messages import STATE_BATCH
from sharebroker_server.share_coordinator.core.commands import ReadReply, SummaryReply
from sharebroker_server.share_coordinator.core.state import (
    CheckpointTombstone,
    DeltaTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
    ShareState,
)
from sharebroker_server.share_coordinator.service import messages
from tests.unit.share_coordinator.harness import KEY, batch

BATCHES = (batch(100, 109), batch(111, 111, 0))
CHECKPOINT = ShareCheckpoint(KEY, 2, 3, 4, 100, 5, 1000, 2000, BATCHES)


def test_read_response_has_every_field() -> None:
    fields = messages.READ_REPLY.fields(ReadReply(3, 100, BATCHES))
    assert (fields["state_epoch"], fields["start_offset"]) == (3, 100)
    assert tuple(StateBatch(*part.values()) for part in fields["state_batches"]) == BATCHES
    assert messages.SUMMARY.fields(SummaryReply(3, 4, 100, 5, 7, 6, 2)) == {
        "state_epoch": 3,
        "leader_epoch": 4,
        "start_offset": 100,
        "delivery_complete_count": 5,
        "waiting_count": 7,
        "locked_count": 6,
        "archiving_count": 2,
    }


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (CHECKPOINT, "checkpoint"),
        (ShareDelta(KEY, 9, 2, 6, 105, 7, BATCHES), "delta"),
        (CheckpointTombstone(KEY), "tombstone"),
        (DeltaTombstone(KEY, 9), "tombstone"),
    ],
)
def test_record_in_the_log_is_described(record: ShareRecord, kind: str) -> None:
    described = messages.log_record(17, record)
    assert (described.position, described.kind) == (17, kind)
    batches = getattr(record, "state_batches", ())
    assert tuple(map(STATE_BATCH.value, described.state_batches)) == tuple(batches)


def test_state_has_the_form_of_its_checkpoint() -> None:
    state = ShareState.of(CHECKPOINT, 17, 8)
    assert messages.state_record(state) == messages.log_record(17, CHECKPOINT)
