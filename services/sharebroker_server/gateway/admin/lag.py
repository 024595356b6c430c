"""Lag of a share group, including partitions without stored state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.config.group import OffsetReset
from sharebroker_server.gateway.admin.cluster import list_offsets
from sharebroker_server.gateway.admin.groups import describe_offsets
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.context import Gateway

_UNKNOWN: Final = -1
_NONE: Final = -1
_LATEST: Final = -1
_EARLIEST: Final = -2

_Partition = tuple[str, int]


async def group_lag(gateway: Gateway, group_id: str, topic: str, deadline: Deadline) -> int:
    """Returns the number of records that the group has not finished, of one topic or of all its topics ("").

    A partition without stored state counts from the offset of `share.auto.offset.reset`. With `latest` it
    counts as 0, because its start offset is set by the first read. Raises KafkaError if the lag of a
    partition is unknown.
    """
    request = pb.DescribeShareGroupOffsetsRequest.Group(group_id=group_id, all_topics=True)
    described = await describe_offsets(
        gateway, pb.DescribeShareGroupOffsetsRequest(groups=[request]), deadline
    )
    (group,) = described.groups
    _raise(group)
    rows = {
        (each.topic_id, row.partition): row
        for each in group.topics
        if each.topic_id and topic in ("", each.topic_name)
        for row in each.partitions
    }
    for row in rows.values():
        _raise(row)
    known = {key: row.lag for key, row in rows.items() if row.lag != _UNKNOWN}
    begins = _begins(gateway.catalog.group_config(group_id).offset_reset)
    fresh = {*rows, *_all_of(gateway, topic)} - {*known} if begins != _LATEST else ()
    return sum(known.values()) + await _records(gateway, sorted(fresh), begins, deadline)


def _begins(reset: OffsetReset) -> int:
    """Returns the timestamp of the start offset."""
    at = {"latest": _LATEST, "earliest": _EARLIEST}
    return at.get(reset.strategy, max(int(now() * 1000) - reset.duration_ms, 0))


def _all_of(gateway: Gateway, topic: str) -> Iterable[_Partition]:
    found = gateway.catalog.topic(topic) if topic else None
    return [] if found is None else [(found.topic_id, index) for index in range(found.partitions)]


async def _records(gateway: Gateway, partitions: Sequence[_Partition], since: int, deadline: Deadline) -> int:
    """Returns the number of records from a timestamp on."""
    begins = await _offsets(gateway, partitions, since, deadline)
    ends = await _offsets(gateway, [key for key in partitions if begins[key] != _NONE], _LATEST, deadline)
    return sum(max(end - begins[key], 0) for key, end in ends.items())


async def _offsets(
    gateway: Gateway, partitions: Sequence[_Partition], timestamp: int, deadline: Deadline
) -> dict[_Partition, int]:
    if not partitions:
        return {}
    asked = [
        leader.ListOffsetsRequest.Partition(topic_id=topic_id, partition=partition, timestamp=timestamp)
        for topic_id, partition in partitions
    ]
    found = await list_offsets(gateway, leader.ListOffsetsRequest(partitions=asked), deadline)
    for row in found.partitions:
        _raise(row)
    return {(row.topic_id, row.partition): row.offset for row in found.partitions}


def _raise(
    result: pb.DescribeShareGroupOffsetsResponse.Group
    | pb.DescribeShareGroupOffsetsResponse.Partition
    | leader.ListOffsetsResponse.Partition,
) -> None:
    if result.error_code:
        raise KafkaError(ErrorCode(result.error_code), result.error_message)
