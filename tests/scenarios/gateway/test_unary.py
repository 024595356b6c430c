"""Acquire and Acknowledge: the calls of users with grpcurl alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster_pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_protocol.rpc_status import from_rpc_error
from tests.scenarios.gateway.wire import Connection, Topic, connect
from tests.testkit.brokers import Cluster
from tests.testkit.waiting import eventually

ACCEPT, RELEASE, RENEW = 1, 2, 4


@pytest.fixture
async def connection(cluster: Cluster) -> AsyncIterator[Connection]:
    async with connect(cluster.address) as connection:
        yield connection


async def acquire(topic: Topic, group_id: str, records: int = 10, **more: Any) -> Any:
    request = {"max_wait_ms": 5_000, "as_text": True} | more
    return await topic.connection.share.Acquire(
        pb.AcquireRequest(group_id=group_id, topics=[topic.name], max_records=records, **request)
    )


async def decide(topic: Topic, group_id: str, member_id: str, *decisions: Any) -> list[int]:
    """Returns the error code of each decision: (type, record), with other fields replaced by a third dict."""
    asked = [
        pb.AcknowledgeRequest.Decision(
            **{
                "topic": topic.name,
                "partition": record.partition,
                "offset": record.offset,
                "lock_token": record.lock_token,
                "type": kind,
            }
            | dict(*changed)
        )
        for kind, record, *changed in decisions
    ]
    request = pb.AcknowledgeRequest(group_id=group_id, member_id=member_id, acknowledgements=asked)
    return [result.error_code for result in (await topic.connection.share.Acknowledge(request)).results]


async def rejection(call: Any) -> KafkaError:
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await call
    return from_rpc_error(failure.value)


async def test_published_records_are_acquired_and_acknowledged(connection: Connection) -> None:
    topic = await connection.topic(partitions=3)
    group_id = await connection.group(topic)
    for partition in range(3):
        await topic.publish(2, partition)
    got = await acquire(topic, group_id)
    assert sorted((record.partition, record.offset, record.text) for record in got.records) == [
        (partition, offset, str(offset)) for partition in range(3) for offset in range(2)
    ]
    codes = await decide(topic, group_id, got.member_id, *((ACCEPT, record) for record in got.records))
    assert codes == [0] * 6
    assert not (await acquire(topic, group_id, max_wait_ms=50)).records


async def test_unknown_group_needs_no_heartbeat(connection: Connection) -> None:
    topic = await connection.topic()
    group_id = await connection.group(await connection.topic())  # has its configs; has no state of this topic
    await topic.publish(1)
    assert len((await acquire(topic, group_id)).records) == 1
    described = await connection.admin.ShareGroupDescribe(
        group.ShareGroupDescribeRequest(group_ids=[group_id])
    )
    assert len(described.groups[0].members) <= 1  # the initialising member leaves at once


async def test_deleted_group_restarts_at_the_next_call(connection: Connection) -> None:
    topic = await connection.topic()
    group_id = await connection.group(topic)
    await topic.publish(3)
    got = await acquire(topic, group_id, 2, member_id="one")
    assert await decide(topic, group_id, "one", (ACCEPT, got.records[0])) == [0]

    async def deleted() -> bool:  # the member that initialised the state may not have left yet
        response = await connection.admin.DeleteGroups(group.DeleteGroupsRequest(group_ids=[group_id]))
        return bool(response.results[0].error_code == 0)

    await eventually(deleted)
    again = await acquire(topic, group_id, member_id="two")
    assert [record.offset for record in again.records] == [0, 1, 2]
    late = await decide(topic, group_id, "one", (ACCEPT, got.records[1]))
    assert late == [ErrorCode.INVALID_RECORD_STATE]


async def test_partitions_added_later_are_served(connection: Connection) -> None:
    topic = await connection.topic()
    group_id = await connection.group(topic)
    assert not (await acquire(topic, group_id, max_wait_ms=0)).records
    more = cluster_pb.CreatePartitionsRequest.Topic(name=topic.name, count=2)
    await connection.admin.CreatePartitions(cluster_pb.CreatePartitionsRequest(topics=[more]))
    await topic.publish(1, partition=1)
    assert [record.partition for record in (await acquire(topic, group_id)).records] == [1]


async def test_each_decision_has_its_own_result(connection: Connection) -> None:
    topic = await connection.topic()
    group_id = await connection.group(topic)
    await topic.publish(4)
    got = await acquire(topic, group_id)
    first, second, third, fourth = got.records
    codes = await decide(
        topic,
        group_id,
        got.member_id,
        (ACCEPT, first),
        (ACCEPT, second, {"lock_token": second.lock_token + 1}),
        (RELEASE, third),
        (RENEW, fourth),
        (ACCEPT, first),
    )
    stale = ErrorCode.INVALID_RECORD_STATE
    assert codes == [0, stale, 0, 0, stale]
    assert await decide(topic, group_id, "another", (ACCEPT, second)) == [stale]
    again = await acquire(topic, group_id)
    assert [(record.offset, record.delivery_count) for record in again.records] == [(third.offset, 2)]


async def test_acquire_obeys_its_record_limit(connection: Connection) -> None:
    topic = await connection.topic(partitions=2)
    group_id = await connection.group(topic)
    for partition in range(2):
        await topic.publish(5, partition)
    sizes = [len((await acquire(topic, group_id, count)).records) for count in (1, 0, 7, 7)]
    assert sum(sizes) == 10
    assert sizes[:2] == [1, 1]
    assert max(sizes) <= 7


WRONG = [
    ({"group_id": ""}, "group_id"),
    ({"topics": []}, "topics"),
    ({"member_id": "x" * 37}, "member_id"),
    ({"max_records": -1}, "max_records"),
    ({"max_records": 1001}, "max_records"),
    ({"max_wait_ms": 60_001}, "max_wait_ms"),
]


@pytest.mark.parametrize(("changed", "field"), WRONG)
async def test_invalid_requests_are_rejected(
    connection: Connection, changed: dict[str, Any], field: str
) -> None:
    fields = {"group_id": "group", "topics": ["topic"]} | changed
    error = await rejection(connection.share.Acquire(pb.AcquireRequest(**fields)))
    assert error.code is ErrorCode.INVALID_REQUEST
    assert [violation.field for violation in error.violations] == [field]


async def test_unknown_topic_is_an_error(connection: Connection) -> None:
    error = await rejection(connection.share.Acquire(pb.AcquireRequest(group_id="group", topics=["nowhere"])))
    assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error.metadata["topic"] == "nowhere"


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"type": 7}, "acknowledgements[0]"),
        ({"last_offset": 0, "offset": 5}, "acknowledgements[0]"),
    ],
)
async def test_invalid_decisions_are_rejected_whole(
    connection: Connection, changed: dict[str, Any], field: str
) -> None:
    topic = await connection.topic()
    group_id = await connection.group(topic)
    await topic.publish(1)
    got = await acquire(topic, group_id)
    error = await rejection(decide(topic, group_id, got.member_id, (ACCEPT, got.records[0], changed)))
    assert [violation.field for violation in error.violations] == [field]
    assert await decide(topic, group_id, got.member_id, (ACCEPT, got.records[0])) == [0]
