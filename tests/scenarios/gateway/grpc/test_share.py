"""Kafka's raw-wire scenarios (ShareFetchAcknowledgeRequestTest), on the services themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import share_pb2
from sharebroker_protocol.rpc_status import from_rpc_error
from tests.scenarios.gateway.wire import (
    ACCEPT,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    Connection,
    Session,
    acquired,
    connect,
    counts,
    parts_of,
)
from tests.testkit.brokers import Cluster
from tests.testkit.waiting import eventually


@pytest.fixture
async def connection(cluster: Cluster) -> AsyncIterator[Connection]:
    async with connect(cluster.address) as connection:
        yield connection


async def rejection(call: Any) -> ErrorCode:
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await call
    return from_rpc_error(failure.value).code


async def test_single_record_batches_are_acquired_as_one_run(connection: Connection) -> None:
    topic = await connection.topic()
    session = Session(topic, await connection.group(topic))
    await topic.publish(10)
    response = await session.first_fetch(0)
    assert response.acquisition_lock_timeout_ms == 30_000
    assert (acquired(response), counts(response)) == ([(0, 9)], [1])


@pytest.mark.parametrize(
    ("limits", "runs"),
    [
        ({"max_records": 1, "batch_size": 1}, [(0, 0)]),
        ({"max_records": 5, "batch_size": 1}, [(offset, offset) for offset in range(5)]),
        ({"max_records": 3, "batch_size": 500, "share_acquire_mode": RECORD_LIMIT}, [(0, 2)]),
        ({"max_bytes": 1}, [(0, 0)]),  # testPollRecordsGreaterThanMaxBytes: one batch, however large
    ],
)
async def test_fetch_obeys_record_and_byte_limits(
    connection: Connection, limits: dict[str, Any], runs: list[tuple[int, int]]
) -> None:
    topic = await connection.topic()
    session = Session(topic, await connection.group(topic), limits=limits)
    await topic.publish(10)
    assert acquired(await session.first_fetch(0)) == runs


async def test_fetch_returns_before_its_callers_deadline(
    connection: Connection,
) -> None:
    topic = await connection.topic()
    group_id = await connection.group(topic)
    part = share_pb2.ShareFetchRequest.FetchPartition(partition_index=0)
    asked = share_pb2.ShareFetchRequest(
        group_id=group_id,
        member_id="m",
        max_wait_ms=60_000,
        max_records=10,
        topics=[share_pb2.ShareFetchRequest.FetchTopic(topic_id=topic.topic_id, partitions=[part])],
    )
    assert acquired(await connection.share.ShareFetch(asked, timeout=1.0)) == []
    asked.share_session_epoch = 1
    assert acquired(await connection.share.ShareFetch(asked, timeout=1.0)) == []


# Acknowledgements of the first ten records, and the next fetch: offsets and delivery counts.
DECISIONS = [
    (ACCEPT, [(10, 19)], [1]),
    (RELEASE, [(0, 9), (10, 19)], [2, 1]),
    (REJECT, [(10, 19)], [1]),
]


@pytest.mark.parametrize(("kind", "runs", "delivered"), DECISIONS)
async def test_share_acknowledge_applies_acknowledgements(
    connection: Connection, kind: int, runs: list[tuple[int, int]], delivered: list[int]
) -> None:
    topic = await connection.topic()
    session = Session(topic, await connection.group(topic))
    await topic.publish(10)
    await session.first_fetch(0)
    assert (await session.acknowledge(kind, 0, 9)).error_code == 0
    await topic.publish(10)
    response = await session.fetch(0, max_wait_ms=5_000)
    assert (acquired(response), counts(response)) == (runs, delivered)


@pytest.mark.parametrize(("kind", "runs", "delivered"), DECISIONS)
async def test_share_fetch_applies_piggybacked_acknowledgements(
    connection: Connection, kind: int, runs: list[tuple[int, int]], delivered: list[int]
) -> None:
    topic = await connection.topic()
    session = Session(topic, await connection.group(topic))
    await topic.publish(10)
    await session.first_fetch(0)
    await topic.publish(10)
    response = await session.fetch(0, acks=[(kind, 0, 9)])
    assert parts_of(response)[0].acknowledge_error_code == 0
    assert (acquired(response), counts(response)) == (runs, delivered)


async def test_records_never_acquired_cannot_be_acknowledged(connection: Connection) -> None:
    topic = await connection.topic()
    session = Session(topic, await connection.group(topic))
    await topic.publish(10)
    await session.first_fetch(0)
    assert (await session.acknowledge(ACCEPT, 5, 14)).error_code == ErrorCode.INVALID_REQUEST
    assert (await session.acknowledge(ACCEPT, 0, 9)).error_code == 0  # all or nothing: no batch was applied
    other = Session(topic, session.group_id)
    await topic.publish(1)
    assert acquired(await other.first_fetch(0)) == [(10, 10)]
    assert (await session.acknowledge(ACCEPT, 10, 10)).error_code == ErrorCode.INVALID_RECORD_STATE


async def test_record_is_archived_at_the_delivery_limit(connection: Connection) -> None:
    topic = await connection.topic()
    session = Session(topic, await connection.group(topic, share_delivery_count_limit="2"))
    await topic.publish(10)
    assert counts(await session.first_fetch(0)) == [1]
    await session.acknowledge(RELEASE, 0, 9)
    assert counts(await session.fetch(0, max_wait_ms=5_000)) == [2]
    await session.acknowledge(RELEASE, 0, 9)
    assert acquired(await session.fetch(0, max_wait_ms=50)) == []


async def test_members_share_records_and_groups_do_not(connection: Connection) -> None:
    topic = await connection.topic()
    group_id, other_group = await connection.group(topic), await connection.group(topic)
    await topic.publish(10)
    half = {"max_records": 5, "share_acquire_mode": RECORD_LIMIT}
    one, two = (Session(topic, group_id, limits=half) for _ in range(2))
    assert acquired(await one.first_fetch(0)) == [(0, 4)]
    assert acquired(await two.first_fetch(0)) == [(5, 9)]
    assert acquired(await Session(topic, other_group).first_fetch(0)) == [(0, 9)]


@pytest.mark.parametrize("by_acknowledging", [False, True])
async def test_closed_session_releases_its_records(connection: Connection, by_acknowledging: bool) -> None:
    topic = await connection.topic()
    group_id = await connection.group(topic)
    session = Session(topic, group_id)
    await topic.publish(10)
    await session.first_fetch(0)
    if by_acknowledging:
        assert (await session.acknowledge(ACCEPT, 0, 3, epoch=-1)).error_code == 0
    else:
        response = await session.fetch(0, epoch=-1, acks=[(ACCEPT, 0, 3)])
        assert parts_of(response)[0].acknowledge_error_code == 0
    assert await rejection(session.fetch(0, epoch=2)) is ErrorCode.SHARE_SESSION_NOT_FOUND
    other = Session(topic, group_id)
    response = await other.first_fetch(0, max_wait_ms=5_000)
    assert (acquired(response), counts(response)) == ([(4, 9)], [2])


async def test_acknowledgements_do_not_open_a_session(connection: Connection) -> None:
    topic = await connection.topic()
    session = Session(topic, await connection.group(topic))
    assert await rejection(session.fetch(0, epoch=0, acks=[(ACCEPT, 0, 0)])) is ErrorCode.INVALID_REQUEST
    call = session.acknowledge(ACCEPT, 0, 0, epoch=0)
    assert await rejection(call) is ErrorCode.INVALID_SHARE_SESSION_EPOCH


async def test_wrong_epochs_and_unknown_sessions_are_rejected(connection: Connection) -> None:
    topic = await connection.topic()
    session = Session(topic, await connection.group(topic))
    assert await rejection(session.fetch(0, epoch=1)) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert await rejection(session.acknowledge(ACCEPT, 0, 0, epoch=-1)) is ErrorCode.SHARE_SESSION_NOT_FOUND
    await session.first_fetch(0, max_wait_ms=0)
    assert await rejection(session.fetch(0, epoch=5)) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    call = session.acknowledge(ACCEPT, 0, 0, epoch=5)
    assert await rejection(call) is ErrorCode.INVALID_SHARE_SESSION_EPOCH


async def test_forgotten_partitions_are_absent(connection: Connection) -> None:
    topic = await connection.topic(partitions=2)
    session = Session(topic, await connection.group(topic))
    await session.first_fetch(0, 1, max_wait_ms=0)
    for partition in (0, 1):
        await topic.publish(3, partition)
    forgotten = {"topic_id": topic.topic_id, "partitions": [0]}
    response = await session.fetch(forgotten_topics_data=[forgotten], max_wait_ms=5_000)
    assert list(parts_of(response)) == [1]


async def test_a_fetch_waits_for_records(connection: Connection) -> None:
    topic = await connection.topic()
    session = Session(topic, await connection.group(topic))
    await session.first_fetch(0, max_wait_ms=0)

    async def fetched() -> bool:
        return bool(acquired(await session.fetch(0, max_wait_ms=200)))

    await topic.publish(1)
    await eventually(fetched)


async def test_fenced_member_joins_again(connection: Connection) -> None:
    topic = await connection.topic()
    group_id = await connection.group(topic)
    joined = await connection.heartbeat(group_id, "member", 0, topic.name)
    assert (
        await rejection(connection.heartbeat(group_id, "member", joined.member_epoch + 7))
        is ErrorCode.FENCED_MEMBER_EPOCH
    )
    assert await rejection(connection.heartbeat(group_id, "stranger", 3)) is ErrorCode.UNKNOWN_MEMBER_ID
    again = await connection.heartbeat(group_id, "member", 0, topic.name)
    assert [list(part.partitions) for part in again.assignment.topic_partitions] == [[0]]
    assert (await connection.heartbeat(group_id, "member", -1)).member_epoch == -1
