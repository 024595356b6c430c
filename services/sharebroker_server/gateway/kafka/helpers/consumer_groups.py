"""What the APIs of consumer groups have in common: the way to the coordinator, and partitions by id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.catalog.names import check_group_id
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.config import REQUEST_TIMEOUT
from sharebroker_server.gateway.kafka.dispatch.call import Call
from sharebroker_server.gateway.kafka.helpers.topics import parts, topic_of

if TYPE_CHECKING:
    from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
        GroupCoordinatorServiceAsyncStub as Stub,
    )

A = TypeVar("A")
_Place = tuple[str, str, int]

LONGEST_REBALANCE_MS: Final = 30 * 60_000
"""Nobody waits longer for the other members of its group, whatever they ask for."""


def patience(rebalance_ms: int) -> Deadline:
    """How long a member waits for the others, and the coordinator's answer after that."""
    return Deadline(min(rebalance_ms, LONGEST_REBALANCE_MS) / 1000 + REQUEST_TIMEOUT)


async def coordinator(
    call: Call,
    group_id: str,
    method: Callable[[Stub], Callable[..., Awaitable[A]]],
    request: Any,
    deadline: Deadline,
) -> A:
    """The coordinator's answer. Raises NOT_COORDINATOR for a group that another broker answers for."""
    check_group_id(group_id, code=ErrorCode.INVALID_GROUP_ID)
    call.view.check_coordinates(group_id)

    async def send(stub: Stub, left: float) -> A:
        return await method(stub)(request, timeout=left)

    return await call.gateway.coordinators.of_group(group_id, send, deadline)


def instance_of(member: Any) -> str | None:
    """The instance id of a fixed member in an answer of the coordinator."""
    return member.group_instance_id if member.HasField("group_instance_id") else None


async def committed(
    call: Call, request: pb.OffsetCommitRequest, send: Callable[[], Awaitable[pb.OffsetCommitResponse]]
) -> list[tuple[Any, list[tuple[int, int]]]]:
    """The topics of a request with an error code for each partition; those that are known are added to the
    coordinator's `request`, which `send` sends.
    """
    errors: dict[_Place, int] = {}
    places: list[_Place] = []
    for topic, one in parts(call.request):
        place = _place(topic, one)
        try:
            topic_id = known_partition(call, *place)
        except KafkaError as error:
            errors[place] = error.code
        else:
            places.append(place)
            _add(request, topic_id, one)
    if request.partitions or not errors:
        kept = (await send()).partitions
        # A partition that is named twice has one result.
        by_id = {(one.topic_id, one.partition): one.error_code for one in kept}
        sent = zip(places, request.partitions, strict=True)
        errors |= {place: by_id[one.topic_id, one.partition] for place, one in sent}
    return [
        (topic, [(one.partition_index, errors[_place(topic, one)]) for one in topic.partitions])
        for topic in call.request.topics
    ]


def not_committed(call: Call, code: int) -> list[tuple[Any, list[tuple[int, int]]]]:
    """The same where the request was refused as a whole."""
    return [
        (topic, [(one.partition_index, code) for one in topic.partitions]) for topic in call.request.topics
    ]


def _place(topic: Any, one: Any) -> _Place:
    return topic.name, getattr(topic, "topic_id", ""), one.partition_index


def _add(request: pb.OffsetCommitRequest, topic_id: str, one: Any) -> None:
    request.partitions.add(
        topic_id=topic_id,
        partition=one.partition_index,
        committed_offset=one.committed_offset,
        committed_leader_epoch=one.committed_leader_epoch,
        metadata=one.committed_metadata or "",
    )


def known_partition(call: Call, name: str, topic_id: str, partition: int) -> str:
    """The topic's id. Raises UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID."""
    topic = topic_of(call, name, topic_id)
    if not 0 <= partition < topic.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic.topic_id
