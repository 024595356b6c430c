"""Group records as protobuf (protos/sharebroker/storage/v1/group.proto).

Partitions of a topic that are being initialised are grouped into one entry per time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from google.protobuf.message import DecodeError

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.storage.v1 import group_pb2 as pb
from sharebroker_server.group_coordinator.core.consumer_groups.commands import Committed
from sharebroker_server.group_coordinator.core.consumer_groups.machine import ConsumerRecord
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import (
    OffsetRecord,
    Outcome,
    Pending,
    PendingRecord,
    Place,
    TransactionEndRecord,
)
from sharebroker_server.group_coordinator.core.machine import Record
from sharebroker_server.group_coordinator.core.share_groups.group import (
    Assignment,
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

_State = pb.GroupStatePartitionMetadata
_KIND: Final = pb.GroupRecord.Kind


class GroupCodec:
    """Encodes and decodes the log entries of a group shard."""

    def encode(self, record: Record) -> bytes:
        """Returns the payload of a record."""
        return _message(record).SerializeToString()

    def decode(self, payload: bytes) -> Record:
        """Returns the record of a payload. Raises ValueError."""
        try:
            message = pb.GroupRecord.FromString(payload)
        except DecodeError as broken:
            raise ValueError("not a group record") from broken
        return _record(message)


def _message(record: Record) -> pb.GroupRecord:
    match record:
        case GroupRecord(group_id):
            return pb.GroupRecord(kind=_KIND.KIND_METADATA, group_id=group_id, metadata=_metadata(record))
        case MemberRecord(group_id, member_id, profile):
            return pb.GroupRecord(
                kind=_KIND.KIND_MEMBER,
                group_id=group_id,
                member_id=member_id,
                member=_member(profile) if profile else None,
            )
        case TargetEpochRecord(group_id, assignment_epoch):
            return pb.GroupRecord(
                kind=_KIND.KIND_TARGET_ASSIGNMENT_METADATA,
                group_id=group_id,
                target_assignment_metadata=pb.GroupTargetAssignmentMetadata(
                    assignment_epoch=assignment_epoch
                ),
            )
        case TargetRecord(group_id, member_id, target):
            return pb.GroupRecord(
                kind=_KIND.KIND_TARGET_ASSIGNMENT_MEMBER,
                group_id=group_id,
                member_id=member_id,
                target_assignment_member=pb.GroupTargetAssignmentMember(topic_partitions=_partitions(target)),
            )
        case CurrentRecord(group_id, member_id):
            return pb.GroupRecord(
                kind=_KIND.KIND_CURRENT_MEMBER_ASSIGNMENT,
                group_id=group_id,
                member_id=member_id,
                current_member_assignment=_current(record),
            )
        case OffsetRecord() | PendingRecord() | TransactionEndRecord():
            return message_of(record)
        case FloorRecord(epoch):
            return pb.GroupRecord(kind=_KIND.KIND_EPOCH_FLOOR, epoch_floor=pb.GroupEpochFloor(epoch=epoch))
        case _:
            return pb.GroupRecord(
                kind=_KIND.KIND_STATE_PARTITION_METADATA,
                group_id=record.group_id,
                state_partition_metadata=_state(record.topics),
            )


def _metadata(record: GroupRecord) -> pb.GroupMetadata | None:
    if record.epoch is None:
        return None
    return pb.GroupMetadata(
        epoch=record.epoch, metadata_hash=record.metadata_hash, since_epoch=record.since_epoch
    )


def _member(profile: Profile) -> pb.GroupMember:
    return pb.GroupMember(
        rack_id=profile.rack_id or "",
        client_id=profile.client_id,
        client_host=profile.client_host,
        subscribed_topic_names=sorted(profile.subscribed),
        stream_id=profile.stream_id,
    )


def _current(record: CurrentRecord) -> pb.GroupCurrentMemberAssignment:
    return pb.GroupCurrentMemberAssignment(
        member_epoch=record.epoch,
        previous_member_epoch=record.previous_epoch,
        assigned_partitions=_partitions(record.assigned),
    )


def _partitions(assignment: Assignment) -> list[pb.GroupTopicPartitions]:
    return [
        pb.GroupTopicPartitions(topic_id=topic_id, partitions=sorted(some))
        for topic_id, some in sorted(assignment.items())
    ]


def _state(topics: Mapping[str, TopicState]) -> _State:
    state = _State()
    for topic_id, topic in sorted(topics.items()):

        def entry(
            partitions: Iterable[int], since: int, topic_id: str = topic_id, name: str = topic.name
        ) -> _State.Topic:
            return _State.Topic(
                topic_id=topic_id, topic_name=name, partitions=sorted(partitions), since_ms=since
            )

        known = entry(topic.initialized, topic.known_since)
        known.since_epoch = topic.since_epoch
        state.initialized.append(known)
        for since in sorted(set(topic.initializing.values())):
            state.initializing.append(
                entry((p for p, then in topic.initializing.items() if then == since), since)
            )
        if topic.deleting:
            state.deleting.append(entry(topic.deleting, topic.known_since))
    return state


def _record(message: pb.GroupRecord) -> Record:
    group_id, member_id = message.group_id, message.member_id
    match message.WhichOneof("value"):
        case "metadata":
            group = message.metadata
            return GroupRecord(group_id, group.epoch, group.metadata_hash, group.since_epoch)
        case "member":
            return MemberRecord(group_id, member_id, _profile(message.member))
        case "target_assignment_metadata":
            return TargetEpochRecord(group_id, message.target_assignment_metadata.assignment_epoch)
        case "target_assignment_member":
            target = message.target_assignment_member
            return TargetRecord(group_id, member_id, _assignment(target.topic_partitions))
        case "current_member_assignment":
            current = message.current_member_assignment
            return CurrentRecord(
                group_id,
                member_id,
                current.member_epoch,
                current.previous_member_epoch,
                _assignment(current.assigned_partitions),
            )
        case "state_partition_metadata":
            return StateRecord(group_id, dict(_topics(message.state_partition_metadata)))
        case "epoch_floor":
            return FloorRecord(message.epoch_floor.epoch)
        case "committed_offset":
            return offset_record(message)
        case "pending_offset":
            return pending_record(message)
        case "transaction_end":
            return end_record(message)
        case _:
            return _tombstone(message)


def _tombstone(message: pb.GroupRecord) -> Record:
    if message.kind == _KIND.KIND_METADATA:
        return GroupRecord(message.group_id, None)
    if message.kind == _KIND.KIND_MEMBER:
        return MemberRecord(message.group_id, message.member_id, None)
    if message.kind == _KIND.KIND_COMMITTED_OFFSET:
        return offset_record(message)
    raise ValueError(f"a group record without a value: kind {message.kind}")


def _profile(member: pb.GroupMember) -> Profile:
    return Profile(
        member.rack_id or None,
        member.client_id,
        member.client_host,
        frozenset(member.subscribed_topic_names),
        member.stream_id,
    )


def _assignment(some: Iterable[pb.GroupTopicPartitions]) -> Assignment:
    return {entry.topic_id: frozenset(entry.partitions) for entry in some}


def _topics(state: _State) -> Iterator[tuple[str, TopicState]]:
    initializing: dict[str, dict[int, int]] = {}
    for entry in state.initializing:
        initializing.setdefault(entry.topic_id, {}).update(dict.fromkeys(entry.partitions, entry.since_ms))
    deleting = {entry.topic_id: frozenset(entry.partitions) for entry in state.deleting}
    for entry in state.initialized:
        yield (
            entry.topic_id,
            TopicState(
                entry.topic_name,
                entry.since_ms,
                initializing.get(entry.topic_id, {}),
                frozenset(entry.partitions),
                deleting.get(entry.topic_id, frozenset()),
                entry.since_epoch,
            ),
        )


def message_of(record: ConsumerRecord) -> pb.GroupRecord:
    """Returns the message of a record."""
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
    """Returns the record of a committed offset."""
    committed = _offset(message.committed_offset) if message.HasField("committed_offset") else None
    return OffsetRecord(message.group_id, _partition(message), committed)


def pending_record(message: pb.GroupRecord) -> PendingRecord:
    """Returns the record of a pending offset."""
    one = message.pending_offset
    pending = Pending(one.producer_epoch, one.coordinator_epoch, one.order, _offset(one.offset))
    place = Place(message.group_id, _partition(message))
    return PendingRecord(one.producer_id, place, pending if one.HasField("offset") else None)


def end_record(message: pb.GroupRecord) -> TransactionEndRecord:
    """Returns the record of a transaction's end."""
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
