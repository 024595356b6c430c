"""Calls of the group coordinator, partitions by topic id, and requests about several groups."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.groups import (
    LONGEST_REBALANCE_MS,
    call_coordinator,
    commit_offsets,
    coordinates,
    each_group,
    known_partitions,
    rebalance_deadline,
)
from sharebroker_server.kafka_wire.messages import ApiVersionsRequest, OffsetCommitRequest
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness

DESCRIBE = AclOperation.DESCRIBE


def test_the_wait_for_a_rebalance_is_bounded() -> None:
    assert rebalance_deadline(60_000).remaining() == pytest.approx(60 + REQUEST_TIMEOUT, abs=1)
    longest = LONGEST_REBALANCE_MS / 1000 + REQUEST_TIMEOUT
    assert rebalance_deadline(LONGEST_REBALANCE_MS * 10).remaining() == pytest.approx(longest, abs=1)


async def test_the_coordinator_of_another_broker_is_not_called(api_harness: Harness, call: Call) -> None:
    api_harness.services.reply("Heartbeat", pb.HeartbeatResponse())
    await call_coordinator(call, lambda stub: stub.Heartbeat, pb.HeartbeatRequest(group_id="g"))
    with pytest.raises(KafkaError) as error:
        await call_coordinator(call, lambda stub: stub.Heartbeat, pb.HeartbeatRequest())
    assert error.value.code is ErrorCode.INVALID_GROUP_ID
    assert len(api_harness.services.requests["Heartbeat"]) == 1


async def test_a_partition_named_twice_has_one_result(api_harness: Harness) -> None:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=1, committed_offset=4)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC.name, partitions=[partition, partition])
    request = pb.OffsetCommitRequest()

    async def send() -> pb.OffsetCommitResponse:
        done = pb.OffsetCommitResponse.Partition(topic_id=TOPIC.topic_id, partition=1)
        return pb.OffsetCommitResponse(partitions=[done])

    call = api_harness.call_of(OffsetCommitRequest(topics=[topic]))
    assert await commit_offsets(call, request, send) == [(1, 0), (1, 0)]


def test_known_partitions_are_found_by_topic_id(api_harness: Harness) -> None:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition
    known, unknown = partition(partition_index=1), partition(partition_index=2)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC.name, partitions=[known, unknown])
    call = api_harness.call_of(OffsetCommitRequest(topics=[topic]))
    assert list(known_partitions(call)) == [
        (known, TOPIC.topic_id, ErrorCode.NONE),
        (unknown, "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


async def serve(group_ids: Sequence[str]) -> list[str]:
    return [f"served {group_id}" for group_id in group_ids]


def rejected(group_id: str, error: KafkaError) -> str:
    return f"{error.code.name} {group_id}"


async def test_own_groups_are_served_once_each(api_harness: Harness) -> None:
    call = api_harness.call_of(ApiVersionsRequest())
    assert coordinates(call, "a")
    assert await each_group(call, DESCRIBE, ["b", "a", "b"], serve, rejected) == ["served b", "served a"]


async def test_other_groups_are_rejected(api_harness: Harness) -> None:
    api_harness.lead_elsewhere()
    call = api_harness.call_of(ApiVersionsRequest())
    assert not coordinates(call, "a")
    assert await each_group(call, DESCRIBE, ["a"], serve, rejected) == ["NOT_COORDINATOR a"]


async def test_forbidden_groups_are_rejected_by_every_broker(api_harness: Harness) -> None:
    authorizer = api_harness.gateway.authorizer = TableAuthorizer()
    authorizer.deny(DESCRIBE, AclResourceType.GROUP, "a")
    call = api_harness.call_of(ApiVersionsRequest())
    assert await each_group(call, DESCRIBE, ["a", "b"], serve, rejected) == [
        "GROUP_AUTHORIZATION_FAILED a",
        "served b",
    ]
    api_harness.lead_elsewhere()
    call = api_harness.call_of(ApiVersionsRequest())
    assert await each_group(call, DESCRIBE, ["a"], serve, rejected) == ["GROUP_AUTHORIZATION_FAILED a"]
