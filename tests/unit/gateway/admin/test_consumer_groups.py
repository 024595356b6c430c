"""Consumer groups are described with members, committed offsets and lag."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as coordinator
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.admin.consumer_groups import describe, lag_of
from sharebroker_server.rpc.errors import wire
from tests.testkit.tables import each
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC

SOON = 5.0


@pytest.fixture(autouse=True)
def consumers(harness: Harness) -> None:
    """Group `g` has a member, and offsets in both partitions of the topic and in a deleted topic."""

    async def described(request: Any, _: Any = None, **__: Any) -> coordinator.ConsumerGroupDescribeResponse:
        if request.group_id != "g":
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "unknown")
        response = coordinator.ConsumerGroupDescribeResponse(
            group_state="Stable", protocol_type="consumer", protocol_name="range"
        )
        response.members.add(member_id="m", client_id="c", client_host="/h")
        return response

    async def fetched(request: Any, _: Any = None, **__: Any) -> coordinator.OffsetFetchResponse:
        response = coordinator.OffsetFetchResponse()
        response.partitions.add(topic_id=TOPIC.topic_id, partition=1, committed_offset=9)
        response.partitions.add(topic_id=TOPIC.topic_id, partition=0, committed_offset=4)
        response.partitions.add(topic_id="deleted", partition=0, committed_offset=4)
        return response

    def answer(request: leader.ListOffsetsRequest) -> leader.ListOffsetsResponse:
        response = leader.ListOffsetsResponse()
        for part in request.partitions:
            error = wire(ErrorCode.KAFKA_STORAGE_ERROR if part.partition else ErrorCode.NONE)
            response.partitions.add(
                topic_id=part.topic_id, partition=part.partition, offset=10, error_code=error
            )
        return response

    harness.coordinator.ConsumerGroupDescribe = described  # type: ignore[attr-defined]
    harness.coordinator.OffsetFetch = fetched  # type: ignore[attr-defined]
    harness.leader.answer = answer


async def test_group_has_members_offsets_and_lag(harness: Harness) -> None:
    request = pb.DescribeConsumerGroupsRequest(group_ids=["g", "none"])
    found, unknown = (await describe(harness.gateway, request, Deadline(SOON))).groups
    assert (found.group_id, found.group_state, found.protocol_name) == ("g", "Stable", "range")
    assert [(one.member_id, one.client_id, one.client_host) for one in found.members] == [("m", "c", "/h")]
    assert not found.members[0].HasField("group_instance_id")
    assert [(one.topic_name, one.partition, one.committed_offset, one.lag) for one in found.offsets] == [
        (TOPIC.name, 0, 4, 6),
        (TOPIC.name, 1, 9, -1),
    ]
    assert (unknown.group_id, unknown.error_code) == ("none", wire(ErrorCode.GROUP_ID_NOT_FOUND))


@each("committed, end, lag", [(4, 10, 6), (10, 10, 0), (12, 10, 0), (4, None, -1)])
def test_lag_is_the_rest_of_the_log(committed: int, end: int | None, lag: int) -> None:
    assert lag_of(committed, end) == lag
