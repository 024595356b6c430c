"""Group records are encoded and decoded unchanged; invalid bytes are rejected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.storage.v1 import group_pb2 as pb
from sharebroker_server.group_coordinator.core.consumer_groups.commands import Committed
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import (
    OffsetRecord,
    PendingOffset,
    PendingRecord,
    Place,
    TransactionalCommit,
    TransactionEndRecord,
)
from sharebroker_server.group_coordinator.core.machine import Record
from sharebroker_server.group_coordinator.core.share_groups.group import (
    CurrentRecord,
    FloorRecord,
    GroupRecord,
    MemberRecord,
    Profile,
    StateRecord,
    TargetEpochRecord,
    TargetRecord,
    TopicState,
)
from sharebroker_server.group_coordinator.core.share_groups.sessions import Silence
from sharebroker_server.group_coordinator.store.codec import GroupCodec, message_of, record_of
from tests.testkit.tables import each

AT = Place("g", TopicIdPartition("t", 3))

RECORDS: list[Record] = [
    FloorRecord(7),
    OffsetRecord("g", TopicIdPartition("t", 3), Committed(41, 2, "where from", 1_700_000_000_125)),
    OffsetRecord("g", TopicIdPartition("t", 0), Committed(0)),
    OffsetRecord("g", TopicIdPartition("t", 3), None),
    PendingRecord(70, AT, PendingOffset(4, 12, 3, Committed(41, 2, "where from", 1_700_000_000_125))),
    PendingRecord(0, AT, PendingOffset(0, -1, 1, Committed(0))),
    PendingRecord(70, AT, None),
    TransactionEndRecord(
        70,
        (TransactionalCommit(AT, 3, Committed(41, 2, "from", 7)), TransactionalCommit(AT, 1, Committed(0))),
    ),
    TransactionEndRecord(70),
    GroupRecord("g", 3, (1 << 63) - 1, 2),
    GroupRecord("g", 0),
    GroupRecord("g", None),
    MemberRecord("g", "m", Profile("r", "c", "h", frozenset({"a", "b"}), "s", "User:alice")),
    MemberRecord("g", "m", Profile(None, "", "", frozenset())),
    MemberRecord("g", "m", Profile(None, "", "", frozenset()), Silence(1_700_000_000_125, 4_000)),
    MemberRecord("g", "m", Profile(None, "", "", frozenset()), Silence(0, 0)),
    MemberRecord("g", "m", None),
    TargetEpochRecord("g", 4),
    TargetRecord("g", "m", {"t": frozenset({0, 7}), "u": frozenset({1})}),
    TargetRecord("g", "m", {}),
    CurrentRecord("g", "m", 4, 3, {"t": frozenset({0})}),
    CurrentRecord("g", "m", 1, 0, {}),
    StateRecord("g", {}),
    StateRecord(
        "g",
        {
            "t": TopicState("a", 5, {0: 5, 1: 9, 2: 9}, frozenset({3, 4}), frozenset({6})),
            "u": TopicState("b", 6, {}, frozenset({0}), since_epoch=7),
            "v": TopicState("c", 7, {0: 7}),
            "w": TopicState("d", 8, deleting=frozenset({1})),
        },
    ),
]


@each("record", RECORDS)
def test_record_round_trip(record: Record) -> None:
    assert GroupCodec().decode(GroupCodec().encode(record)) == record


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        pb.GroupRecord(kind=pb.GroupRecord.Kind.KIND_TARGET_ASSIGNMENT_MEMBER).SerializeToString(),
    ],
)
def test_invalid_bytes_are_rejected(payload: bytes) -> None:
    with pytest.raises(ValueError, match="a group record"):
        GroupCodec().decode(payload)


PARTITION = TopicIdPartition("t", 3)
PLACE = Place("g", PARTITION)
COMMITTED = Committed(41, 2, "where from", 1_700_000_000_125)


@pytest.mark.parametrize("committed", [COMMITTED, Committed(0), None])
def test_committed_offset_has_kafkas_fields(committed: Committed | None) -> None:
    record = OffsetRecord("g", PARTITION, committed)
    message = message_of(record)
    assert message.kind == pb.GroupRecord.KIND_COMMITTED_OFFSET
    assert (message.group_id, message.topic_id, message.partition) == ("g", "t", 3)
    assert record_of(message) == record


@pytest.mark.parametrize(
    "pending", [PendingOffset(4, 12, 3, COMMITTED), PendingOffset(0, -1, 1, Committed(0)), None]
)
def test_pending_offset_has_its_producer(pending: PendingOffset | None) -> None:
    record = PendingRecord(70, PLACE, pending)
    message = message_of(record)
    assert message.kind == pb.GroupRecord.KIND_PENDING_OFFSET
    assert (message.group_id, message.pending_offset.producer_id) == ("g", 70)
    assert record_of(message) == record


@pytest.mark.parametrize(
    "outcomes", [(), (TransactionalCommit(PLACE, 3, COMMITTED), TransactionalCommit(PLACE, 1, Committed(0)))]
)
def test_transaction_end_has_producer_and_outcome(outcomes: tuple[TransactionalCommit, ...]) -> None:
    record = TransactionEndRecord(70, outcomes)
    message = message_of(record)
    assert message.kind == pb.GroupRecord.KIND_TRANSACTION_END
    assert record_of(message) == record


def test_version_before_reads_a_member_whose_silence_is_stored() -> None:
    """It ignores the field beside the value."""
    member = MemberRecord("g", "m", Profile("r", "c", "h", frozenset({"a"})))
    message = message_of(replace(member, silence=Silence(1_000, 500)))
    message.ClearField("silence")
    assert record_of(message) == member
