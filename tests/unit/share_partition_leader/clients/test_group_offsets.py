"""The lowest start offset of all share groups, from every group coordinator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_server.routing.router import Peer, Router
from sharebroker_server.share_partition_leader.clients.group_offsets import consumed_offsets
from tests.unit.share_partition_leader.harness import ME


class Coordinator:
    """A group coordinator with the start offsets of its groups; -1 is not set yet."""

    def __init__(self, **groups: dict[tuple[str, int], int]) -> None:
        self.groups = groups
        self.refused = ErrorCode.NONE

    async def ListGroups(self, request: Any, *, timeout: float) -> group.ListGroupsResponse:
        response = group.ListGroupsResponse()
        for name in self.groups:
            response.groups.add(group_id=name)
        return response

    async def DescribeShareGroupOffsets(
        self, request: group.DescribeShareGroupOffsetsRequest, *, timeout: float
    ) -> group.DescribeShareGroupOffsetsResponse:
        response = group.DescribeShareGroupOffsetsResponse()
        for asked in request.groups:
            assert asked.all_topics
            answer = response.groups.add(group_id=asked.group_id)
            if self.refused:
                answer.error_code = int(self.refused)  # type: ignore[assignment]  # the enum's numbers are Kafka's
            for (topic_id, partition), offset in self.groups[asked.group_id].items():
                topic = answer.topics.add(topic_id=topic_id)
                topic.partitions.add(partition=partition, start_offset=offset)
        return response


def router(*coordinators: Coordinator, lacking: bool = False) -> Router:
    """A router to these group coordinators; `lacking`: a shard has no owner."""

    def check_all_answered(role: str, shards: object) -> None:
        if lacking:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "a shard has no owner")

    peers = [Peer(ME, coordinator) for coordinator in coordinators]
    return cast(
        "Router",
        SimpleNamespace(group_coordinators=lambda: peers, check_all_answered=check_all_answered),
    )


async def test_the_slowest_group_counts() -> None:
    first = Coordinator(a={("t", 0): 10, ("t", 1): 20}, b={("t", 0): 5})
    second = Coordinator(c={("t", 1): 7, ("u", 0): -1})
    assert await consumed_offsets(router(first, second)) == {("t", 0): 5, ("t", 1): 7, ("u", 0): 0}
    assert await consumed_offsets(router()) == {}


@pytest.mark.parametrize("lacking", [False, True])
async def test_one_unavailable_group_makes_the_result_an_error(lacking: bool) -> None:
    coordinator = Coordinator(a={("t", 0): 10})
    if not lacking:
        coordinator.refused = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(KafkaError):
        await consumed_offsets(router(coordinator, lacking=lacking))
