"""Records of consumer groups as protobuf: offsets, those of open transactions, and how these ended."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.storage.v1 import group_pb2 as pb
from sharebroker_server.group_coordinator.core.consumers.commands import Committed
from sharebroker_server.group_coordinator.core.consumers.machine import ConsumerRecord
from sharebroker_server.group_coordinator.core.consumers.offsets import OffsetRecord
from sharebroker_server.group_coordinator.core.consumers.pending import (
    Outcome,
    Pending,
    PendingRecord,
    Place,
    TransactionEndRecord,
)

_KIND: Final = pb.GroupRecord.Kind


def message_of(record: ConsumerRecord) -> pb.GroupRecord:
    """The message of a record."""
    match record:
        case OffsetRecord(group_id, partition, committed):
            return pb.GroupRecord(
                kind=_KIND.KIND_COMMITTED_OFFSET,
                group_id=group_id,
                topic_id=partition.topic_id,
                partition=partition.partition,
                committed_offset=_committed(committed) if committed else None,
            )
        case PendingRecord(producer_id, (group_id, partition), pending):
            return pb.GroupRecord(
                kind=_KIND.KIND_PENDING_OFFSET,
                group_id=group_id,
                topic_id=partition.topic_id,
                partition=partition.partition,
                pending_offset=_pending(producer_id, pending),
            )
        case _:
            ended = pb.GroupTransactionEnd(
                producer_id=record.producer_id, committed=map(_outcome, record.outcomes)
            )
            return pb.GroupRecord(kind=_KIND.KIND_TRANSACTION_END, transaction_end=ended)


def offset_record(message: pb.GroupRecord) -> OffsetRecord:
    """The record of a committed offset."""
    committed = _offset(message.committed_offset) if message.HasField("committed_offset") else None
    return OffsetRecord(message.group_id, _partition(message), committed)


def pending_record(message: pb.GroupRecord) -> PendingRecord:
    """The record of an offset in a transaction."""
    one = message.pending_offset
    pending = Pending(one.producer_epoch, one.coordinator_epoch, one.order, _offset(one.offset))
    place = Place(message.group_id, _partition(message))
    return PendingRecord(one.producer_id, place, pending if one.HasField("offset") else None)


def end_record(message: pb.GroupRecord) -> TransactionEndRecord:
    """The record of a transaction's end."""
    ended = message.transaction_end
    outcomes = (
        Outcome(Place(one.group_id, _partition(one)), one.order, _offset(one.offset))
        for one in ended.committed
    )
    return TransactionEndRecord(ended.producer_id, tuple(outcomes))


def _pending(producer_id: int, pending: Pending | None) -> pb.GroupPendingOffset:
    if pending is None:
        return pb.GroupPendingOffset(producer_id=producer_id)
    return pb.GroupPendingOffset(
        producer_id=producer_id,
        producer_epoch=pending.producer_epoch,
        coordinator_epoch=pending.coordinator_epoch,
        order=pending.order,
        offset=_committed(pending.committed),
    )


def _outcome(outcome: Outcome) -> pb.GroupTransactionEnd.Committed:
    group_id, (topic_id, partition) = outcome.place
    return pb.GroupTransactionEnd.Committed(
        group_id=group_id,
        topic_id=topic_id,
        partition=partition,
        order=outcome.order,
        offset=_committed(outcome.committed),
    )


def _committed(committed: Committed) -> pb.GroupCommittedOffset:
    return pb.GroupCommittedOffset(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        committed_at_ms=committed.at_ms,
    )


def _partition(message: pb.GroupRecord | pb.GroupTransactionEnd.Committed) -> TopicIdPartition:
    return TopicIdPartition(message.topic_id, message.partition)


def _offset(kept: pb.GroupCommittedOffset) -> Committed:
    return Committed(kept.offset, kept.leader_epoch, kept.metadata, kept.committed_at_ms)
