"""Group records as protobuf (protos/sharebroker/storage/v1/group.proto).

Partitions of a topic that are being initialised are grouped into one entry per time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from google.protobuf.message import DecodeError

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
from sharebroker_server.group_coordinator.core.share_groups.sessions import Silence
from sharebroker_server.proto_values import Conversion, Mapped

_Kind = pb.GroupRecord.Kind
_State = pb.GroupStatePartitionMetadata


class GroupCodec:
    """Encodes and decodes the log entries of a group shard."""

    def encode(self, record: Record) -> bytes:
        """Returns the payload of a record."""
        return message_of(record).SerializeToString()

    def decode(self, payload: bytes) -> Record:
        """Returns the record of a payload. Raises ValueError."""
        try:
            message = pb.GroupRecord.FromString(payload)
        except DecodeError as broken:
            raise ValueError("not a group record") from broken
        return record_of(message)


def message_of(record: Record) -> pb.GroupRecord:
    """Returns the message of a record."""
    match record:
        case GroupRecord(group_id, epoch):
            metadata = None if epoch is None else _GROUP.message(record)
            return pb.GroupRecord(kind=_Kind.KIND_METADATA, group_id=group_id, metadata=metadata)
        case CurrentRecord(group_id, member_id):
            return pb.GroupRecord(
                kind=_Kind.KIND_CURRENT_MEMBER_ASSIGNMENT,
                group_id=group_id,
                member_id=member_id,
                current_member_assignment=_CURRENT.message(record),
            )
        case OffsetRecord(_, partition):
            return _OFFSET.message(record, kind=_Kind.KIND_COMMITTED_OFFSET, **partition._asdict())
        case PendingRecord(producer_id, (group_id, partition), pending):
            fields: dict[str, Any] = {} if pending is None else _PENDING.fields(pending)
            return pb.GroupRecord(
                kind=_Kind.KIND_PENDING_OFFSET,
                group_id=group_id,
                **partition._asdict(),
                pending_offset=pb.GroupPendingOffset(producer_id=producer_id, **fields),
            )
        case TransactionEndRecord():
            return pb.GroupRecord(kind=_Kind.KIND_TRANSACTION_END, transaction_end=_END.message(record))
        case _:
            kind, _, conversion = _KINDS[type(record)]
            return conversion.message(record, kind=kind)


def record_of(message: pb.GroupRecord) -> Record:
    """Returns the record of a message. Raises ValueError for an unknown kind."""
    group_id, member_id = message.group_id, message.member_id
    partition = TopicIdPartition(message.topic_id, message.partition)
    match message.kind, message.WhichOneof("value"):
        case _, "metadata":
            return _GROUP.value(message.metadata, group_id=group_id)
        case _Kind.KIND_METADATA, None:
            return GroupRecord(group_id, None)
        case _, "current_member_assignment":
            current = message.current_member_assignment
            return _CURRENT.value(current, group_id=group_id, member_id=member_id)
        case _, "pending_offset":
            pending = message.pending_offset
            offset = _PENDING.value(pending) if pending.HasField("offset") else None
            return PendingRecord(pending.producer_id, Place(group_id, partition), offset)
        case _, "transaction_end":
            return _END.value(message.transaction_end)
        case (_, "committed_offset") | (_Kind.KIND_COMMITTED_OFFSET, None):
            return _OFFSET.value(message, partition=partition)
        case kind, None if kind != _Kind.KIND_MEMBER:
            raise ValueError(f"a group record without a value: kind {kind}")
        case _, value:
            record: Record = _BY_VALUE[value or "member"].value(message)
            return record


def _topic_list(assignment: Assignment) -> list[dict[str, Any]]:
    return [
        {"topic_id": topic_id, "partitions": sorted(partitions)}
        for topic_id, partitions in sorted(assignment.items())
    ]


def _assignment(topics: Iterable[pb.GroupTopicPartitions | _State.Topic]) -> Assignment:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}


def _state(topics: Mapping[str, TopicState]) -> _State:
    state = _State()
    for topic_id, topic in sorted(topics.items()):
        named = {"topic_id": topic_id, "topic_name": topic.name}
        state.initialized.add(
            **named,
            partitions=sorted(topic.initialized),
            since_ms=topic.known_since,
            since_epoch=topic.since_epoch,
        )
        for since in sorted(set(topic.initializing.values())):
            partitions = sorted(key for key, then in topic.initializing.items() if then == since)
            state.initializing.add(**named, partitions=partitions, since_ms=since)
        if topic.deleting:
            state.deleting.add(**named, partitions=sorted(topic.deleting), since_ms=topic.known_since)
    return state


def _topics(state: _State) -> dict[str, TopicState]:
    initializing: dict[str, dict[int, int]] = {}
    for topic in state.initializing:
        initializing.setdefault(topic.topic_id, {}).update(dict.fromkeys(topic.partitions, topic.since_ms))
    deleting = _assignment(state.deleting)
    return {
        topic.topic_id: TopicState(
            topic.topic_name,
            topic.since_ms,
            initializing.get(topic.topic_id, {}),
            frozenset(topic.partitions),
            deleting.get(topic.topic_id, frozenset()),
            topic.since_epoch,
        )
        for topic in state.initialized
    }


def _outcome(outcome: TransactionalCommit) -> dict[str, Any]:
    group_id, partition = outcome.place
    offset = _COMMITTED.fields(outcome.committed)
    return {"group_id": group_id, **partition._asdict(), "order": outcome.order, "offset": offset}


def _outcomes(messages: Iterable[pb.GroupTransactionEnd.Committed]) -> tuple[TransactionalCommit, ...]:
    return tuple(
        TransactionalCommit(
            Place(each.group_id, TopicIdPartition(each.topic_id, each.partition)),
            each.order,
            _COMMITTED.value(each.offset),
        )
        for each in messages
    )


_GROUP: Final = Conversion(GroupRecord, pb.GroupMetadata)
_COMMITTED: Final = Conversion(Committed, pb.GroupCommittedOffset, {"at_ms": "committed_at_ms"})
_OFFSET: Final = Conversion(
    OffsetRecord, pb.GroupRecord, {"committed": Mapped("committed_offset", _COMMITTED), "partition": "-"}
)
_PENDING: Final = Conversion(
    PendingOffset, pb.GroupPendingOffset, {"committed": Mapped("offset", _COMMITTED)}
)
_END: Final = Conversion(
    TransactionEndRecord,
    pb.GroupTransactionEnd,
    {"outcomes": Mapped("committed", encode=lambda outcomes: [*map(_outcome, outcomes)], decode=_outcomes)},
)
_PROFILE: Final = Conversion(
    Profile,
    pb.GroupMember,
    {
        "rack_id": Mapped(encode=lambda rack_id: rack_id or "", decode=lambda rack_id: rack_id or None),
        "subscribed": Mapped("subscribed_topic_names", encode=sorted, decode=frozenset),
    },
)
_CURRENT: Final = Conversion(
    CurrentRecord,
    pb.GroupCurrentMemberAssignment,
    {
        "epoch": "member_epoch",
        "previous_epoch": "previous_member_epoch",
        "assigned": Mapped("assigned_partitions", encode=_topic_list, decode=_assignment),
    },
)
_ALSO: Final = {"silence": Mapped(nested=Conversion(Silence, pb.GroupMemberSilence))}
"""The field of a message beside its value."""
_KINDS: Final[dict[type, tuple[int, str, Conversion[Any, pb.GroupRecord]]]] = {
    record: (kind, value, Conversion(record, pb.GroupRecord, {field: mapped._replace(name=value), **_ALSO}))
    for record, kind, value, field, mapped in (
        (MemberRecord, _Kind.KIND_MEMBER, "member", "profile", Mapped(nested=_PROFILE)),
        (
            TargetEpochRecord,
            _Kind.KIND_TARGET_ASSIGNMENT_METADATA,
            "target_assignment_metadata",
            "assignment_epoch",
            Mapped(
                encode=lambda epoch: {"assignment_epoch": epoch},
                decode=lambda metadata: metadata.assignment_epoch,
            ),
        ),
        (
            TargetRecord,
            _Kind.KIND_TARGET_ASSIGNMENT_MEMBER,
            "target_assignment_member",
            "target",
            Mapped(
                encode=lambda target: {"topic_partitions": _topic_list(target)},
                decode=lambda member: _assignment(member.topic_partitions),
            ),
        ),
        (
            StateRecord,
            _Kind.KIND_STATE_PARTITION_METADATA,
            "state_partition_metadata",
            "topics",
            Mapped(encode=_state, decode=_topics),
        ),
        (
            FloorRecord,
            _Kind.KIND_EPOCH_FLOOR,
            "epoch_floor",
            "epoch",
            Mapped(encode=lambda epoch: {"epoch": epoch}, decode=lambda floor: floor.epoch),
        ),
    )
}
"""The kind of a record, the field of the message that contains its value, and its conversion."""

_BY_VALUE: Final = {value: conversion for _, value, conversion in _KINDS.values()}
