"""Reads the start offsets of all share groups from the group coordinators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.routing.router import GROUP_COORDINATOR, Router

TIMEOUT: Final = 10.0
"""Seconds for one call."""


async def consumed_offsets(router: Router) -> Mapping[TopicIdPartition, int]:
    """Returns the lowest start offset of all share groups, by partition.

    A group without a start offset counts as 0: no record that it may need is deleted. Raises KafkaError if a
    coordinator does not respond or a shard has no owner: the result would be incomplete.
    """
    lowest: dict[TopicIdPartition, int] = defaultdict(lambda: 1 << 62)
    shards: list[int] = []
    for peer in router.group_coordinators():
        listed = await peer.stub.ListGroups(pb.ListGroupsRequest(types_filter=["share"]), timeout=TIMEOUT)
        shards += listed.shards
        request = pb.DescribeShareGroupOffsetsRequest()
        for group in listed.groups:
            request.groups.add(group_id=group.group_id, all_topics=True)
        response = await peer.stub.DescribeShareGroupOffsets(request, timeout=TIMEOUT)
        for described in response.groups:
            _lower(lowest, described)
    router.check_all_answered(GROUP_COORDINATOR, shards)
    return lowest


def _lower(
    lowest: dict[TopicIdPartition, int], described: pb.DescribeShareGroupOffsetsResponse.Group
) -> None:
    if described.error_code:
        raise KafkaError(ErrorCode(described.error_code), described.error_message)
    for topic in described.topics:
        for partition in topic.partitions:
            key = TopicIdPartition(topic.topic_id, partition.partition)
            lowest[key] = min(lowest[key], max(partition.start_offset, 0))
