"""Consumer group records as messages."""

from __future__ import annotations

import pytest

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.storage.v1 import group_pb2 as pb
from sharebroker_server.group_coordinator.core.consumer_groups.commands import Committed
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import OffsetRecord
from sharebroker_server.group_coordinator.core.consumer_groups.pending import (
    Outcome,
    Pending,
    PendingRecord,
    Place,
    TransactionEndRecord,
)
from sharebroker_server.group_coordinator.store.consumer_groups import (
    end_record,
    message_of,
    offset_record,
    pending_record,
)

PARTITION = TopicIdPartition("t", 3)
PLACE = Place("g", PARTITION)
COMMITTED = Committed(41, 2, "where from", 1_700_000_000_125)


@pytest.mark.parametrize("committed", [COMMITTED, Committed(0), None])
def test_committed_offset(committed: Committed | None) -> None:
    record = OffsetRecord("g", PARTITION, committed)
    message = message_of(record)
    assert message.kind == pb.GroupRecord.KIND_COMMITTED_OFFSET
    assert (message.group_id, message.topic_id, message.partition) == ("g", "t", 3)
    assert offset_record(message) == record


@pytest.mark.parametrize("pending", [Pending(4, 12, 3, COMMITTED), Pending(0, -1, 1, Committed(0)), None])
def test_pending_offset(pending: Pending | None) -> None:
    record = PendingRecord(70, PLACE, pending)
    message = message_of(record)
    assert message.kind == pb.GroupRecord.KIND_PENDING_OFFSET
    assert (message.group_id, message.pending_offset.producer_id) == ("g", 70)
    assert pending_record(message) == record


@pytest.mark.parametrize("outcomes", [(), (Outcome(PLACE, 3, COMMITTED), Outcome(PLACE, 1, Committed(0)))])
def test_end_of_a_transaction(outcomes: tuple[Outcome, ...]) -> None:
    record = TransactionEndRecord(70, outcomes)
    message = message_of(record)
    assert message.kind == pb.GroupRecord.KIND_TRANSACTION_END
    assert end_record(message) == record
