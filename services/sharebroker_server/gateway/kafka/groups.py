"""Groups: calls of their coordinator, partitions by topic id, and requests about several groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.aio import CALLS_AT_ONCE
from sharebroker_server.catalog.topics import check_group_id
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.convert import to_proto
from sharebroker_server.gateway.kafka.topics import PORTION, topic_of
from sharebroker_server.kafka_wire.messages import OffsetCommitRequest
from sharebroker_server.security.acl import AclOperation, AclResourceType
from sharebroker_server.security.authorizer import denied

if TYPE_CHECKING:
    from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
        GroupCoordinatorServiceAsyncStub as Stub,
    )

A = TypeVar("A")

LONGEST_REBALANCE_MS: Final = 30 * 60_000
"""The longest wait for the other members of a group, whatever the client requests."""

# TxnOffsetCommit's partitions have the same fields.
_committed = to_proto(
    OffsetCommitRequest.OffsetCommitRequestPartition,
    pb.OffsetCommitRequest.Partition,
    {"partition_index": "partition", "committed_metadata": "metadata"},
)


def rebalance_deadline(rebalance_ms: int = LONGEST_REBALANCE_MS) -> Deadline:
    """Returns the deadline of a wait for the other members, including the coordinator's response."""
    return Deadline(min(rebalance_ms, LONGEST_REBALANCE_MS) / 1000 + REQUEST_TIMEOUT)


async def call_coordinator(
    call: Call,
    method: Callable[[Stub], Callable[..., Awaitable[A]]],
    request: Any,
    *,
    group_id: str | None = None,
    deadline: Deadline | None = None,
) -> A:
    """Returns the coordinator's response to a request, which has the group id unless `group_id` is set.

    Raises NOT_COORDINATOR for a group of another broker.
    """
    group_id = request.group_id if group_id is None else group_id
    check_group_id(group_id, code=ErrorCode.INVALID_GROUP_ID)
    call.view.check_coordinates(group_id)

    async def send(stub: Stub, remaining: float) -> A:
        return await method(stub)(request, timeout=remaining)

    return await call.gateway.coordinators.of_group(group_id, send, deadline or call.deadline())


def known_partitions(call: Call[Any], *, by_id: bool = False) -> Iterator[tuple[Any, str, ErrorCode]]:
    """Yields each partition of a request, with the id of its topic or with an error code.

    The request names topics by id, or else by name. The client must be allowed to READ the topic.
    """
    for topic in call.request.topics:
        for partition in topic.partitions:
            try:
                found_by = (None, topic.topic_id) if by_id else (topic.name, "")
                named = topic_of(call, AclOperation.READ, *found_by)
                if not 0 <= partition.partition_index < named.partitions:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            except KafkaError as error:
                yield partition, "", error.code
            else:
                yield partition, named.topic_id, ErrorCode.NONE


async def commit_offsets(
    call: Call[Any],
    request: pb.OffsetCommitRequest,
    send: Callable[[], Awaitable[pb.OffsetCommitResponse]],
    *,
    by_id: bool = False,
) -> list[tuple[int, int]]:
    """Commits the offsets of the known partitions; returns index and error code of every partition.

    `send` sends the coordinator's `request`, which receives the known partitions in portions. After a
    failure the remaining ones have its error. It is raised if no partition has another result.
    """
    results: list[tuple[int, int]] = []
    failure: KafkaError | None = None
    async for portion in call.gateway.turns.portions(known_partitions(call, by_id=by_id), PORTION):
        known = [(partition, topic_id) for partition, topic_id, error in portion if not error]
        codes: dict[tuple[str, int], int] = {}
        del request.partitions[:]
        request.partitions.extend(_committed(partition, topic_id=topic_id) for partition, topic_id in known)
        if known and failure is None:
            try:
                committed = (await send()).partitions
            except KafkaError as error:
                failure = error
            else:  # a partition that is named twice has one result
                codes = {(result.topic_id, result.partition): result.error_code for result in committed}
        if failure is not None:
            codes = dict.fromkeys(
                ((topic_id, partition.partition_index) for partition, topic_id in known), failure.code
            )
        results += [
            (partition.partition_index, error or codes[topic_id, partition.partition_index])
            for partition, topic_id, error in portion
        ]
    if not results:
        await send()  # the coordinator checks the member
    if failure is not None and all(code == failure.code for _, code in results):
        raise failure
    return results


async def each_group(
    call: Call,
    operation: AclOperation,
    group_ids: Iterable[str],
    serve: Callable[[Sequence[str]], Awaitable[Iterable[A]]],
    rejected: Callable[[str, KafkaError], A],
) -> list[A]:
    """Returns the result of each group, in order.

    It is from `serve`, or from `rejected` with GROUP_AUTHORIZATION_FAILED unless the client may do the
    operation, with NOT_COORDINATOR if another broker coordinates the group.
    """
    results: list[A] = []
    async for portion in call.gateway.turns.portions(dict.fromkeys(group_ids), CALLS_AT_ONCE):
        results += await _each_of(portion, call, operation, serve, rejected)
    return results


async def _each_of(
    requested: Sequence[str],
    call: Call,
    operation: AclOperation,
    serve: Callable[[Sequence[str]], Awaitable[Iterable[A]]],
    rejected: Callable[[str, KafkaError], A],
) -> list[A]:
    allowed = call.rights.permitted(operation, AclResourceType.GROUP, requested)
    own = [group_id for group_id in requested if group_id in allowed and coordinates(call, group_id)]
    results = dict(zip(own, await serve(own) if own else (), strict=True))
    moved, forbidden = KafkaError(ErrorCode.NOT_COORDINATOR), denied(AclResourceType.GROUP)
    return [
        results[group] if group in results else rejected(group, moved if group in allowed else forbidden)
        for group in requested
    ]


def coordinates(call: Call, group_id: str) -> bool:
    """Returns whether this broker coordinates the group."""
    return call.view.coordinator(group_id) == call.view.local_id
