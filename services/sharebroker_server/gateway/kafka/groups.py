"""Groups: calls of their coordinator, offsets by topic id, and requests about several groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.catalog.names import check_group_id
from sharebroker_server.gateway.config import REQUEST_TIMEOUT
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.topics import topic_of
from sharebroker_server.kafka_wire.messages import OffsetCommitRequest, TxnOffsetCommitRequest

if TYPE_CHECKING:
    from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
        GroupCoordinatorServiceAsyncStub as Stub,
    )

A = TypeVar("A")
CommitTopic = (
    OffsetCommitRequest.OffsetCommitRequestTopic | TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
)
CommitPartition = (
    OffsetCommitRequest.OffsetCommitRequestPartition | TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
)
CommitResults = list[tuple[CommitTopic, list[tuple[int, int]]]]
"""The topics of a request, with the index and error code of each partition."""

_Place = tuple[str, str, int]

LONGEST_REBALANCE_MS: Final = 30 * 60_000
"""The longest wait for the other members of a group, whatever the client requests."""


def rebalance_deadline(rebalance_ms: int) -> Deadline:
    """Returns the deadline of a wait for the other members, including the coordinator's response."""
    return Deadline(min(rebalance_ms, LONGEST_REBALANCE_MS) / 1000 + REQUEST_TIMEOUT)


async def call_coordinator(
    call: Call,
    group_id: str,
    method: Callable[[Stub], Callable[..., Awaitable[A]]],
    request: Any,
    deadline: Deadline,
) -> A:
    """Returns the coordinator's response. Raises NOT_COORDINATOR for a group of another broker."""
    check_group_id(group_id, code=ErrorCode.INVALID_GROUP_ID)
    call.view.check_coordinates(group_id)

    async def send(stub: Stub, remaining: float) -> A:
        return await method(stub)(request, timeout=remaining)

    return await call.gateway.coordinators.of_group(group_id, send, deadline)


async def commit_offsets(
    call: Call[OffsetCommitRequest] | Call[TxnOffsetCommitRequest],
    request: pb.OffsetCommitRequest,
    send: Callable[[], Awaitable[pb.OffsetCommitResponse]],
) -> CommitResults:
    """Commits the offsets of the known partitions and returns the result of every partition.

    Adds the known partitions to the coordinator's `request`, which `send` sends.
    """
    errors: dict[_Place, int] = {}
    places: list[_Place] = []
    topics: list[CommitTopic] = [*call.request.topics]
    for topic in topics:
        for partition in topic.partitions:
            place = _place(topic, partition.partition_index)
            try:
                topic_id = known_partition(call, *place)
            except KafkaError as error:
                errors[place] = error.code
            else:
                places.append(place)
                _add(request, topic_id, partition)
    if request.partitions or not errors:
        committed = (await send()).partitions
        # A partition that is named twice has one result.
        by_id = {(result.topic_id, result.partition): result.error_code for result in committed}
        sent = zip(places, request.partitions, strict=True)
        errors |= {place: by_id[item.topic_id, item.partition] for place, item in sent}
    return [
        (
            topic,
            [(one.partition_index, errors[_place(topic, one.partition_index)]) for one in topic.partitions],
        )
        for topic in topics
    ]


def _place(topic: CommitTopic, index: int) -> _Place:
    return topic.name, getattr(topic, "topic_id", ""), index


def _add(request: pb.OffsetCommitRequest, topic_id: str, partition: CommitPartition) -> None:
    request.partitions.add(
        topic_id=topic_id,
        partition=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
    )


def known_partition(call: Call, name: str, topic_id: str, partition: int) -> str:
    """Returns the id of the topic. Raises UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID."""
    topic = topic_of(call, name, topic_id)
    if not 0 <= partition < topic.partitions:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic.topic_id


R = TypeVar("R")


async def each_group(
    call: Call,
    group_ids: Iterable[str],
    serve: Callable[[Sequence[str]], Awaitable[Iterable[R]]],
    rejected: Callable[[str, KafkaError], R],
) -> list[R]:
    """Returns the result of each group, in order: from `serve`, or `rejected` with NOT_COORDINATOR."""
    requested = list(dict.fromkeys(group_ids))
    own = [group_id for group_id in requested if coordinates(call, group_id)]
    results = dict(zip(own, await serve(own) if own else (), strict=True))
    error = KafkaError(ErrorCode.NOT_COORDINATOR)
    return [results[group] if group in results else rejected(group, error) for group in requested]


def coordinates(call: Call, group_id: str) -> bool:
    """Returns whether this broker coordinates the group."""
    return call.view.coordinator(group_id) == call.view.local_id
