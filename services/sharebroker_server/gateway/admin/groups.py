"""Group administration: sends each group's part of a request to its coordinator; the lag of a share group."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from sharebroker_protocol.clock import Deadline, now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.config.group import OffsetReset
from sharebroker_server.gateway.admin.partitions import list_offsets
from sharebroker_server.gateway.clients import raise_moved, retry_until_found
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.routing.router import GROUP_COORDINATOR
from sharebroker_server.rpc.errors import refusal
from sharebroker_server.security import audit

if TYPE_CHECKING:
    from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
        GroupCoordinatorServiceAsyncStub as Stub,
    )

DescribedGroup = pb.ShareGroupDescribeResponse.DescribedGroup
Deleted = pb.DeleteGroupsResponse.DeletableGroupResult
Offsets = pb.DescribeShareGroupOffsetsResponse.Group


_PORTION: Final = 100
"""Changes that are logged in one turn of the event loop."""


class _Coded(Protocol):
    """A result with an error field."""

    error_code: Any
    error_message: str


R = TypeVar("R", bound=_Coded)
C = TypeVar("C", pb.AlterShareGroupOffsetsRequest, pb.DeleteShareGroupOffsetsRequest)


async def list_groups(
    gateway: Gateway, request: pb.ListGroupsRequest, deadline: Deadline
) -> pb.ListGroupsResponse:
    """Returns the groups of all coordinators, by name. Raises KafkaError unless all coordinators respond."""

    async def attempt(left: float) -> pb.ListGroupsResponse:
        peers = gateway.router.group_coordinators()
        answers = await asyncio.gather(*(peer.stub.ListGroups(request, timeout=left) for peer in peers))
        shards = sorted({shard for answer in answers for shard in answer.shards})
        gateway.router.check_all_answered(GROUP_COORDINATOR, shards)
        found = {group.group_id: group for answer in answers for group in answer.groups}
        return pb.ListGroupsResponse(groups=[found[group_id] for group_id in sorted(found)], shards=shards)

    return await retry_until_found(attempt, lambda: None, deadline)


async def describe_groups(
    gateway: Gateway, request: pb.ShareGroupDescribeRequest, deadline: Deadline
) -> pb.ShareGroupDescribeResponse:
    """Describes each group."""

    async def send(
        stub: Stub, group_id: str, left: float
    ) -> Iterable[pb.ShareGroupDescribeResponse.DescribedGroup]:
        one = pb.ShareGroupDescribeRequest(
            group_ids=[group_id], include_authorized_operations=request.include_authorized_operations
        )
        return (await stub.ShareGroupDescribe(one, timeout=left)).groups

    groups = await _each(gateway, request.group_ids, send, DescribedGroup, deadline)
    return pb.ShareGroupDescribeResponse(groups=groups)


async def check_group(gateway: Gateway, group_id: str, deadline: Deadline) -> None:
    """Raises GROUP_ID_NOT_FOUND, and the errors of the group's coordinator."""
    described = await describe_groups(gateway, pb.ShareGroupDescribeRequest(group_ids=[group_id]), deadline)
    for found in described.groups:
        if found.error_code:
            raise KafkaError(ErrorCode(found.error_code), found.error_message)


async def delete_groups(
    gateway: Gateway, request: pb.DeleteGroupsRequest, deadline: Deadline
) -> pb.DeleteGroupsResponse:
    """Deletes each group."""

    async def send(stub: Stub, group_id: str, left: float) -> Iterable[Deleted]:
        epoch = request.group_epochs.get(group_id) or await _epoch(stub, group_id, left)
        one = pb.DeleteGroupsRequest(group_ids=[group_id], group_epochs={group_id: epoch} if epoch else {})
        return (await stub.DeleteGroups(one, timeout=left)).results

    with audit.changing("DeleteGroups", "GROUP", request.group_ids):
        results = await _each(gateway, request.group_ids, send, Deleted, deadline)
    for result in results:
        audit.change("DeleteGroups", "GROUP", result.group_id, result.error_code)
    return pb.DeleteGroupsResponse(results=results)


async def describe_offsets(
    gateway: Gateway, request: pb.DescribeShareGroupOffsetsRequest, deadline: Deadline
) -> pb.DescribeShareGroupOffsetsResponse:
    """Returns start offsets and lag of each group."""
    by_id = {group.group_id: group for group in request.groups}

    async def send(stub: Stub, group_id: str, left: float) -> Iterable[Offsets]:
        one = pb.DescribeShareGroupOffsetsRequest(groups=[by_id[group_id]])
        return (await stub.DescribeShareGroupOffsets(one, timeout=left)).groups

    groups = await _each(gateway, list(by_id), send, Offsets, deadline)
    return pb.DescribeShareGroupOffsetsResponse(groups=groups)


async def alter_offsets(
    gateway: Gateway, request: pb.AlterShareGroupOffsetsRequest, deadline: Deadline
) -> pb.AlterShareGroupOffsetsResponse:
    """Moves start offsets of a group. Raises KafkaError."""
    with audit.changing("AlterShareGroupOffsets", "GROUP", [request.group_id]):
        response = await _change(gateway, lambda stub: stub.AlterShareGroupOffsets, request, deadline)
    if response.error_code:
        audit.change("AlterShareGroupOffsets", "GROUP", request.group_id, response.error_code)
    offsets = {
        (topic.topic_name, part.partition): part.start_offset
        for topic in request.topics
        for part in topic.partitions
    }
    parts = ((topic.topic_name, part) for topic in response.responses for part in topic.partitions)
    async for portion in gateway.turns.portions(parts, _PORTION):
        for name, part in portion:
            index = part.partition
            details = {"topic": name, "partition": index, "start_offset": offsets.get((name, index))}
            audit.change("AlterShareGroupOffsets", "GROUP", request.group_id, part.error_code, **details)
    return response


async def delete_offsets(
    gateway: Gateway, request: pb.DeleteShareGroupOffsetsRequest, deadline: Deadline
) -> pb.DeleteShareGroupOffsetsResponse:
    """Deletes the state of topics of a group. Raises KafkaError."""
    with audit.changing("DeleteShareGroupOffsets", "GROUP", [request.group_id]):
        response = await _change(gateway, lambda stub: stub.DeleteShareGroupOffsets, request, deadline)
    if response.error_code:
        audit.change("DeleteShareGroupOffsets", "GROUP", request.group_id, response.error_code)
    for topic in response.responses:
        details = {"topic": topic.topic_name}
        audit.change("DeleteShareGroupOffsets", "GROUP", request.group_id, topic.error_code, **details)
    return response


async def _change(
    gateway: Gateway, rpc: Callable[[Stub], Callable[..., Awaitable[R]]], request: C, deadline: Deadline
) -> R:
    async def send(stub: Stub, left: float) -> R:
        response = await rpc(stub)(await _fenced(stub, request, left), timeout=left)
        raise_moved(response.error_code, response.error_message)
        return response

    return await gateway.coordinators.of_group(request.group_id, send, deadline)


async def _fenced(stub: Stub, change: C, left: float) -> C:
    """Returns a change with the epoch of its group, so that a delayed attempt is rejected.

    Without it, a delayed attempt could reset a group after workers that are no members have read from it. A
    retry may repeat an earlier attempt, because the caller still waits.
    """
    if change.HasField("group_epoch"):
        return change
    fenced = type(change)()
    fenced.CopyFrom(change)
    fenced.group_epoch = await _epoch(stub, change.group_id, left)
    return fenced


async def _epoch(stub: Stub, group_id: str, left: float) -> int:
    """Returns the epoch of a share group, or 0 for an unknown group. Raises KafkaError."""
    request = pb.ShareGroupDescribeRequest(group_ids=[group_id])
    (group,) = (await stub.ShareGroupDescribe(request, timeout=left)).groups
    code = ErrorCode(group.error_code)
    if code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        raise KafkaError(code, group.error_message)
    return group.group_epoch


async def _each(
    gateway: Gateway,
    group_ids: Sequence[str],
    send: Callable[[Stub, str, float], Awaitable[Iterable[R]]],
    answer: Callable[..., R],
    deadline: Deadline,
) -> list[R]:
    """Returns the result of each group, in order; a group whose coordinator failed has the error."""

    async def one(group_id: str) -> R:
        async def attempt(stub: Stub, left: float) -> R:
            (result,) = await send(stub, group_id, left)
            raise_moved(result.error_code, result.error_message)
            return result

        try:
            return await gateway.coordinators.of_group(group_id, attempt, deadline)
        except KafkaError as error:
            return answer(group_id=group_id, **refusal(error))

    return await gateway.turns.gather(one, group_ids)


_UNKNOWN: Final = -1
_NONE: Final = -1
_LATEST: Final = -1
_EARLIEST: Final = -2

_Partition = tuple[str, int]


def _every(_: str) -> bool:
    return True


async def group_lag(
    gateway: Gateway,
    group_id: str,
    topic: str,
    deadline: Deadline,
    counts: Callable[[str], bool] = _every,
) -> int:
    """Returns the number of records that are ready or locked, of one topic or of all the group's topics ("").

    Records that wait for the end of a delay or for their dead letters give workers nothing to do, and do not
    count.
    A paused group has 0. Of all topics those count for whose name `counts` returns true.
    A partition without stored state counts from the offset of `share.auto.offset.reset`. With `latest` it
    counts as 0, because its start offset is set by the first read. Raises KafkaError if the lag of a
    partition is unknown.
    """
    config = gateway.catalog.group_config(group_id)
    if config.share_paused:
        return 0
    request = pb.DescribeShareGroupOffsetsRequest.Group(group_id=group_id, all_topics=True)
    described = await describe_offsets(
        gateway, pb.DescribeShareGroupOffsetsRequest(groups=[request]), deadline
    )
    (group,) = described.groups
    _raise(group)
    rows = {
        (each.topic_id, row.partition): row
        for each in group.topics
        if each.topic_id and topic in ("", each.topic_name) and counts(each.topic_name)
        for row in each.partitions
    }
    for row in rows.values():
        _raise(row)
    known = {key: row.lag - row.waiting - row.archiving for key, row in rows.items() if row.lag != _UNKNOWN}
    begins = _begins(config.offset_reset)
    fresh = {*rows, *_all_of(gateway, topic)} - {*known} if begins != _LATEST else ()
    return sum(known.values()) + await _records(gateway, group_id, sorted(fresh), begins, deadline)


def _begins(reset: OffsetReset) -> int:
    """Returns the timestamp of the start offset."""
    at = {"latest": _LATEST, "earliest": _EARLIEST}
    return at.get(reset.strategy, max(int(now() * 1000) - reset.duration_ms, 0))


def _all_of(gateway: Gateway, topic: str) -> Iterable[_Partition]:
    found = gateway.catalog.topic(topic) if topic else None
    return [] if found is None else [(found.topic_id, index) for index in range(found.partitions)]


async def _records(
    gateway: Gateway, group_id: str, partitions: Sequence[_Partition], since: int, deadline: Deadline
) -> int:
    """Returns the number of records from a timestamp on, without those that are scheduled."""
    wanted = [_wanted(key, since) for key in partitions]
    begins = {
        (row.topic_id, row.partition): row.offset
        for row in await _offsets(gateway, wanted, deadline)
        if row.offset != _NONE
    }
    wanted = [
        _wanted(key, _LATEST, locked_by_group=group_id, scheduled_from_offset=begin)
        for key, begin in begins.items()
    ]
    return sum(
        max(row.offset - begins[row.topic_id, row.partition] - row.scheduled, 0)
        for row in await _offsets(gateway, wanted, deadline)
    )


def _wanted(key: _Partition, timestamp: int, **also: Any) -> leader.ListOffsetsRequest.Partition:
    return leader.ListOffsetsRequest.Partition(topic_id=key[0], partition=key[1], timestamp=timestamp, **also)


async def _offsets(
    gateway: Gateway, wanted: Sequence[leader.ListOffsetsRequest.Partition], deadline: Deadline
) -> Sequence[leader.ListOffsetsResponse.Partition]:
    if not wanted:
        return ()
    found = await list_offsets(gateway, leader.ListOffsetsRequest(partitions=wanted), deadline)
    for row in found.partitions:
        _raise(row)
    return found.partitions


def _raise(
    result: pb.DescribeShareGroupOffsetsResponse.Group
    | pb.DescribeShareGroupOffsetsResponse.Partition
    | leader.ListOffsetsResponse.Partition,
) -> None:
    if result.error_code:
        raise KafkaError(ErrorCode(result.error_code), result.error_message)
