"""Nodes, coordinators and offsets of logs through the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from tests.scenarios.gateway.wire import Connection, connect
from tests.testkit.brokers import Cluster

EARLIEST, LATEST = -2, -1


@pytest.fixture
async def connection(cluster: Cluster) -> AsyncIterator[Connection]:
    async with connect(cluster.address) as connection:
        yield connection


async def test_metadata_lists_brokers_and_topics(connection: Connection, cluster: Cluster) -> None:
    topic = await connection.topic(partitions=3)
    response = await connection.admin.Metadata(pb.MetadataRequest(topics=[topic.name, "nowhere", "no/name"]))
    assert len(response.cluster_id) == 22
    assert cluster.address in {node.address for node in response.nodes}
    known, unknown, illegal = response.topics
    assert (known.topic_id, [part.partition_index for part in known.partitions]) == (
        topic.topic_id,
        [0, 1, 2],
    )
    assert {part.leader_id for part in known.partitions} <= {node.node_id for node in response.nodes}
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert illegal.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    everything = await connection.admin.Metadata(pb.MetadataRequest())
    assert topic.name in {one.name for one in everything.topics}


async def test_coordinators_are_found(connection: Connection, cluster: Cluster) -> None:
    topic = await connection.topic()
    key = f"a:group:{topic.topic_id}:0"
    request = pb.FindCoordinatorRequest(
        key_type=pb.KEY_TYPE_SHARE, coordinator_keys=[key, "a:b", f"a:{topic.topic_id}:x"]
    )
    found, *wrong = (await connection.admin.FindCoordinator(request)).coordinators
    assert (found.key, found.address) == (key, cluster.process("share-coordinator").address)
    assert [response.error_code for response in wrong] == [ErrorCode.INVALID_REQUEST] * 2
    request = pb.FindCoordinatorRequest(coordinator_keys=["a:group"])
    (found,) = (await connection.admin.FindCoordinator(request)).coordinators
    assert found.address == cluster.process("group-coordinator").address


async def test_log_offsets_are_listed(connection: Connection) -> None:
    topic = await connection.topic()
    await topic.publish(5)

    async def offset(timestamp: int) -> int:
        part = leader.ListOffsetsRequest.Partition(topic_id=topic.topic_id, timestamp=timestamp)
        response = await connection.admin.ListOffsets(leader.ListOffsetsRequest(partitions=[part]))
        return int(response.partitions[0].offset)

    assert (await offset(EARLIEST), await offset(LATEST)) == (0, 5)
    part = leader.DeleteRecordsRequest.Partition(topic_id=topic.topic_id, offset=3)
    response = await connection.admin.DeleteRecords(leader.DeleteRecordsRequest(partitions=[part]))
    assert response.partitions[0].low_watermark == 3
    assert (await offset(EARLIEST), await offset(LATEST)) == (3, 5)
