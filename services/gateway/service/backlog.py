"""How many records wait for a group, also where it has not begun to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from services.gateway.clients.deadline import Deadline
from services.gateway.service.cluster import list_offsets
from services.gateway.service.gateway import Gateway
from services.gateway.service.groups import describe_offsets
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker.share_partition_leader.v1 import share_partition_leader_pb2 as leader

_UNKNOWN: Final = -1
_LATEST: Final = -1
_EARLIEST: Final = -2

_Place = tuple[str, int]


async def backlog(gateway: Gateway, group_id: str, topic: str, deadline: Deadline) -> int:
    """Records that the group has not finished, of one topic or of all that it reads ("").

    A partition of which nothing is stored counts as a whole where the group begins with the earliest record,
    else not at all: where the group will begin is not decided yet. Raises KafkaError unless all is known.
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
    known = {place: row.lag for place, row in rows.items() if row.lag != _UNKNOWN}
    begins_early = gateway.catalog.group_config(group_id).offset_reset.strategy == "earliest"
    fresh = {*rows, *_all_of(gateway, topic)} - {*known} if begins_early else ()
    return sum(known.values()) + await _records(gateway, sorted(fresh), deadline)


def _all_of(gateway: Gateway, topic: str) -> Iterable[_Place]:
    found = gateway.catalog.topic(topic) if topic else None
    return [] if found is None else [(found.topic_id, index) for index in range(found.partitions)]


async def _records(gateway: Gateway, places: Sequence[_Place], deadline: Deadline) -> int:
    """How many records there are."""
    total = 0
    for sign, timestamp in ((1, _LATEST), (-1, _EARLIEST)) if places else ():
        asked = [
            leader.ListOffsetsRequest.Partition(topic_id=topic_id, partition=partition, timestamp=timestamp)
            for topic_id, partition in places
        ]
        found = await list_offsets(gateway, leader.ListOffsetsRequest(partitions=asked), deadline)
        for row in found.partitions:
            _raise(row)
            total += sign * row.offset
    return max(total, 0)


def _raise(
    answer: pb.DescribeShareGroupOffsetsResponse.Group
    | pb.DescribeShareGroupOffsetsResponse.Partition
    | leader.ListOffsetsResponse.Partition,
) -> None:
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), answer.error_message)
