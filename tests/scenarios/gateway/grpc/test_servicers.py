"""Groups and their offsets through the RPCs of AdminService."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group_pb
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from tests.scenarios.gateway.wire import ACCEPT, Connection, Session, connect
from tests.testkit.brokers import Cluster


@pytest.fixture
async def connection(cluster: Cluster) -> AsyncIterator[Connection]:
    async with connect(cluster.address) as connection:
        yield connection


async def test_groups_and_offsets_are_described_altered_and_deleted(connection: Connection) -> None:
    topic = await connection.topic()
    group_id = await connection.group(topic)
    await topic.publish(5)
    session = Session(topic, group_id)
    await session.first_fetch(0)
    await session.acknowledge(ACCEPT, 0, 1)
    await session.fetch(epoch=-1)

    listed = await connection.admin.ListGroups(group_pb.ListGroupsRequest())
    assert group_id in {group.group_id for group in listed.groups}
    asked = group_pb.ShareGroupDescribeRequest(group_ids=[group_id, "absent"])
    known, unknown = (await connection.admin.ShareGroupDescribe(asked)).groups
    assert (known.group_id, known.group_state, unknown.error_code) == (
        group_id,
        "Empty",
        ErrorCode.GROUP_ID_NOT_FOUND,
    )

    assert await start_offset(connection, group_id) == 2
    moved = group_pb.AlterShareGroupOffsetsRequest.Partition(partition=0, start_offset=4)
    request = group_pb.AlterShareGroupOffsetsRequest.Topic(topic_name=topic.name, partitions=[moved])
    altered = await connection.admin.AlterShareGroupOffsets(
        group_pb.AlterShareGroupOffsetsRequest(group_id=group_id, topics=[request])
    )
    assert altered.responses[0].partitions[0].error_code == 0
    assert await start_offset(connection, group_id) == 4

    inspected = await connection.admin.InspectShareGroupState(
        state.InspectShareGroupStateRequest(group_id=group_id, topic_id=topic.topic_id)
    )
    assert inspected.consistent
    assert inspected.folded.start_offset == 4

    deleted = await connection.admin.DeleteShareGroupOffsets(
        group_pb.DeleteShareGroupOffsetsRequest(group_id=group_id, topic_names=[topic.name])
    )
    assert deleted.responses[0].error_code == 0
    gone = await connection.admin.DeleteGroups(group_pb.DeleteGroupsRequest(group_ids=[group_id, "absent"]))
    assert [result.error_code for result in gone.results] == [0, ErrorCode.GROUP_ID_NOT_FOUND]


async def start_offset(connection: Connection, group_id: str) -> int:
    asked = group_pb.DescribeShareGroupOffsetsRequest.Group(group_id=group_id, all_topics=True)
    response = await connection.admin.DescribeShareGroupOffsets(
        group_pb.DescribeShareGroupOffsetsRequest(groups=[asked])
    )
    return int(response.groups[0].topics[0].partitions[0].start_offset)
