"""Converts between the RPC messages of consumer groups and the core's values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.status.v1 import status_pb2
from sharebroker_server.aio import Turns
from sharebroker_server.group_coordinator.core.consumer_groups import commands as c
from sharebroker_server.proto_values import Conversion, Mapped
from sharebroker_server.rpc.errors import wire


def _seconds(milliseconds: int) -> float:
    return milliseconds / 1000


NAMES: Final[dict[str, Mapped | str]] = {
    "generation": "generation_id",
    "instance_id": "group_instance_id",
    "protocol": "protocol_name",
    "state": "group_state",
}
"""The fields of commands and replies that have another name in messages."""

MEMBER: Final[Conversion[c.MemberIdentity, Any]] = Conversion(
    c.MemberIdentity,
    pb.HeartbeatRequest,  # and other messages with its fields
    NAMES,
)
LEAVER: Final = Conversion(c.Leaver, pb.LeaveGroupRequest.Member, NAMES)
JOIN: Final = Conversion(
    c.Join,
    pb.JoinGroupRequest,
    NAMES
    | {
        "session_timeout": Mapped("session_timeout_ms", decode=_seconds),
        "rebalance_timeout": Mapped("rebalance_timeout_ms", decode=_seconds),
        "protocols": Mapped(decode=lambda protocols: tuple((each.name, each.metadata) for each in protocols)),
        "must_be_known": "require_known_member_id",
    },
)
JOINED_MEMBER: Final = Conversion(c.JoinedMember, pb.JoinGroupResponse.Member, NAMES)
JOINED: Final = Conversion(c.Joined, pb.JoinGroupResponse, NAMES | {"members": Mapped(nested=JOINED_MEMBER)})
ASSIGNMENTS: Final = Mapped(decode=lambda parts: {part.member_id: part.assignment for part in parts})
SYNC: Final = Conversion(c.Sync, pb.SyncGroupRequest, NAMES | {"assignments": ASSIGNMENTS})
SYNCED: Final = Conversion(c.Synced, pb.SyncGroupResponse, NAMES)
COMPLETE: Final = Conversion(
    c.CompleteTransaction, pb.CompleteTransactionRequest, {"commit": "transaction_result"}
)
OFFSET: Final = Conversion(
    c.Committed,
    pb.OffsetCommitRequest.Partition,
    {"offset": "committed_offset", "leader_epoch": "committed_leader_epoch"},
)
DESCRIBED_MEMBER: Final = Conversion(c.DescribedConsumer, pb.ConsumerGroupDescribeResponse.Member, NAMES)
DESCRIPTION: Final = Conversion(
    c.ConsumersDescription,
    pb.ConsumerGroupDescribeResponse,
    NAMES | {"members": Mapped(nested=DESCRIBED_MEMBER)},
)

_NO_OFFSET: Final = c.Committed(-1)


def code_of(error: KafkaError | None) -> status_pb2.ErrorCode.ValueType:
    """Returns the code of an error in messages; NONE without one."""
    return wire(error.code if error else ErrorCode.NONE)


def offsets_of(request: pb.OffsetCommitRequest) -> dict[TopicIdPartition, c.Committed]:
    """Returns the offsets of a commit."""
    return {
        TopicIdPartition(part.topic_id, part.partition): OFFSET.value(part) for part in request.partitions
    }


def commit_response(
    offsets: Iterable[TopicIdPartition], rejected: Mapping[TopicIdPartition, KafkaError]
) -> pb.OffsetCommitResponse:
    """Returns the response to a commit of `offsets`, some of which were rejected."""
    response = pb.OffsetCommitResponse()
    for key in offsets:
        response.partitions.add(**key._asdict(), error_code=code_of(rejected.get(key)))
    return response


_OFFSETS: Final = 500
"""Offsets that one turn of the event loop adds to a response."""


class OffsetResponses:
    """Makes responses to OffsetFetch; those of a process take turns."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns = Turns()

    async def response(self, offsets: c.GroupOffsets, *, require_stable: bool) -> pb.OffsetFetchResponse:
        """Returns the committed offsets.

        With `require_stable` those that a transaction changes have an error.
        """
        unstable = offsets.unstable if require_stable else frozenset[TopicIdPartition]()
        response = pb.OffsetFetchResponse()
        keys = {**offsets.committed, **dict.fromkeys(unstable)}
        async for portion in self._turns.portions(keys, _OFFSETS):
            for key in portion:
                fields = OFFSET.fields(offsets.committed.get(key, _NO_OFFSET))
                error = ErrorCode.UNSTABLE_OFFSET_COMMIT if key in unstable else ErrorCode.NONE
                response.partitions.add(**key._asdict(), **fields, error_code=wire(error))
        return response
