"""Administration through the gateway: each part of a request reaches its owner and has its own answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster_pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group_pb
from sharebroker_protocol.rpc_status import from_rpc_error
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.testkit.brokers import Cluster
from tests.scenarios.gateway.wire import ACCEPT, Door, Session, Topic, opened

EARLIEST, LATEST = -2, -1


@pytest.fixture
async def door(cluster: Cluster) -> AsyncIterator[Door]:
    async with opened(cluster.address) as door:
        yield door


async def refusal(call: Any) -> KafkaError:
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await call
    return from_rpc_error(failure.value)


async def test_metadata(door: Door, cluster: Cluster) -> None:
    topic = await door.topic(partitions=3)
    answer = await door.admin.Metadata(pb.MetadataRequest(topics=[topic.name, "nowhere", "no/name"]))
    assert len(answer.cluster_id) == 22
    assert cluster.address in {node.address for node in answer.nodes}
    known, unknown, illegal = answer.topics
    assert (known.topic_id, [part.partition_index for part in known.partitions]) == (
        topic.topic_id,
        [0, 1, 2],
    )
    assert {part.leader_id for part in known.partitions} <= {node.node_id for node in answer.nodes}
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert illegal.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    everything = await door.admin.Metadata(pb.MetadataRequest())
    assert topic.name in {one.name for one in everything.topics}


async def test_topics_are_created_by_producers_only_where_the_broker_allows_it(door: Door) -> None:
    name = f"{(await door.topic()).name}-on-demand"
    request = pb.MetadataRequest(topics=[name], allow_auto_topic_creation=True)
    (refused,) = (await door.admin.Metadata(request)).topics
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await allow_creation(door, "true")
    try:
        (made,) = (await door.admin.Metadata(request)).topics
        assert (made.error_code, len(made.partitions)) == (0, 1)
        await Topic(door, f"{name}-by-publishing", "", 1).publish(1)
    finally:
        await allow_creation(door, None)


async def allow_creation(door: Door, value: str | None) -> None:
    resource = cluster_pb.IncrementalAlterConfigsRequest.Resource(
        resource_type=cluster_pb.RESOURCE_TYPE_BROKER
    )
    resource.configs.add(name="auto.create.topics.enable", value=value)
    answer = await door.admin.IncrementalAlterConfigs(
        cluster_pb.IncrementalAlterConfigsRequest(resources=[resource])
    )
    assert not answer.responses[0].error_code, answer


async def test_a_deleted_topic_is_gone_when_the_call_returns(door: Door) -> None:
    topic = await door.topic()
    deleted = cluster_pb.DeleteTopicsRequest.Topic(name=topic.name)
    await door.admin.DeleteTopics(cluster_pb.DeleteTopicsRequest(topics=[deleted]))
    (answer,) = (await door.admin.Metadata(pb.MetadataRequest(topics=[topic.name]))).topics
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_coordinators(door: Door, cluster: Cluster) -> None:
    topic = await door.topic()
    key = f"a:group:{topic.topic_id}:0"
    request = pb.FindCoordinatorRequest(
        key_type=pb.KEY_TYPE_SHARE, coordinator_keys=[key, "a:b", f"a:{topic.topic_id}:x"]
    )
    found, *wrong = (await door.admin.FindCoordinator(request)).coordinators
    assert (found.key, found.address) == (key, cluster.process("share-coordinator").address)
    assert [answer.error_code for answer in wrong] == [ErrorCode.INVALID_REQUEST] * 2
    request = pb.FindCoordinatorRequest(coordinator_keys=["a:group"])
    (found,) = (await door.admin.FindCoordinator(request)).coordinators
    assert found.address == cluster.process("group-coordinator").address


async def test_settings(door: Door) -> None:
    topic = await door.topic()
    group_id = await door.group(topic)
    resource = pb.DescribeConfigsRequest.Resource
    answer = await door.admin.DescribeConfigs(
        pb.DescribeConfigsRequest(
            resources=[
                resource(resource_type=cluster_pb.RESOURCE_TYPE_GROUP, resource_name=group_id),
                resource(
                    resource_type=cluster_pb.RESOURCE_TYPE_TOPIC,
                    resource_name=topic.name,
                    configuration_keys=["retention.ms"],
                ),
                resource(resource_type=cluster_pb.RESOURCE_TYPE_TOPIC, resource_name="nowhere"),
                resource(resource_name="x"),
                resource(resource_type=cluster_pb.RESOURCE_TYPE_GROUP),
            ]
        )
    )
    group, one, nowhere, unspecified, unnamed = answer.results
    reset = next(config for config in group.configs if config.name == "share.auto.offset.reset")
    assert (reset.value, reset.is_default) == ("earliest", False)
    assert [(config.name, config.is_default) for config in one.configs] == [("retention.ms", True)]
    assert nowhere.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert unspecified.error_code == unnamed.error_code == ErrorCode.INVALID_REQUEST


async def test_offsets_of_a_log(door: Door) -> None:
    topic = await door.topic()
    await topic.publish(5)

    async def offset(timestamp: int) -> int:
        part = leader.ListOffsetsRequest.Partition(topic_id=topic.topic_id, timestamp=timestamp)
        answer = await door.admin.ListOffsets(leader.ListOffsetsRequest(partitions=[part]))
        return int(answer.partitions[0].offset)

    assert (await offset(EARLIEST), await offset(LATEST)) == (0, 5)
    part = leader.DeleteRecordsRequest.Partition(topic_id=topic.topic_id, offset=3)
    answer = await door.admin.DeleteRecords(leader.DeleteRecordsRequest(partitions=[part]))
    assert answer.partitions[0].low_watermark == 3
    assert (await offset(EARLIEST), await offset(LATEST)) == (3, 5)


async def test_groups_and_their_offsets(door: Door) -> None:
    topic = await door.topic()
    group_id = await door.group(topic)
    await topic.publish(5)
    session = Session(topic, group_id)
    await session.first_fetch(0)
    await session.acknowledge(ACCEPT, 0, 1)
    await session.fetch(epoch=-1)

    listed = await door.admin.ListGroups(group_pb.ListGroupsRequest())
    assert group_id in {group.group_id for group in listed.groups}
    asked = group_pb.ShareGroupDescribeRequest(group_ids=[group_id, "nobody"])
    known, unknown = (await door.admin.ShareGroupDescribe(asked)).groups
    assert (known.group_id, known.group_state, unknown.error_code) == (
        group_id,
        "Empty",
        ErrorCode.GROUP_ID_NOT_FOUND,
    )

    assert await start_offset(door, group_id) == 2
    moved = group_pb.AlterShareGroupOffsetsRequest.Partition(partition=0, start_offset=4)
    request = group_pb.AlterShareGroupOffsetsRequest.Topic(topic_name=topic.name, partitions=[moved])
    altered = await door.admin.AlterShareGroupOffsets(
        group_pb.AlterShareGroupOffsetsRequest(group_id=group_id, topics=[request])
    )
    assert altered.responses[0].partitions[0].error_code == 0
    assert await start_offset(door, group_id) == 4

    inspected = await door.admin.InspectShareGroupState(
        state.InspectShareGroupStateRequest(group_id=group_id, topic_id=topic.topic_id)
    )
    assert inspected.consistent
    assert inspected.folded.start_offset == 4

    forgotten = await door.admin.DeleteShareGroupOffsets(
        group_pb.DeleteShareGroupOffsetsRequest(group_id=group_id, topic_names=[topic.name])
    )
    assert forgotten.responses[0].error_code == 0
    gone = await door.admin.DeleteGroups(group_pb.DeleteGroupsRequest(group_ids=[group_id, "nobody"]))
    assert [result.error_code for result in gone.results] == [0, ErrorCode.GROUP_ID_NOT_FOUND]


async def start_offset(door: Door, group_id: str) -> int:
    asked = group_pb.DescribeShareGroupOffsetsRequest.Group(group_id=group_id, all_topics=True)
    answer = await door.admin.DescribeShareGroupOffsets(
        group_pb.DescribeShareGroupOffsetsRequest(groups=[asked])
    )
    return int(answer.groups[0].topics[0].partitions[0].start_offset)
