"""Share fetches beyond sessions: renewal, limits, long polls, and connections that close."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from tests.integration.kafka.harness import Harness, Readable, acquire
from tests.support.client import unique
from tests.support.kafka_client import KafkaClient, answered, part, runs
from tests.testkit.waiting import eventually

ACCEPT, RELEASE, RENEW = [1], [2], [4]
RECORD_LIMIT = 1
NO_SIZES: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}


@pytest.fixture
async def at(harness: Harness) -> Readable:
    return await harness.readable()


@pytest.fixture
def member() -> str:
    return unique("member")


# Limits


async def test_record_limit_is_strict(kafka: KafkaClient, harness: Harness, member: str) -> None:
    at = await harness.readable(records=0)
    await harness.client.publish(at.topic, map(str, range(10)), partition=0)  # one batch
    first = await kafka.share_fetch(
        at.group, member, 0, {at.topic_id: [0]}, max_records=3, share_acquire_mode=RECORD_LIMIT
    )
    assert runs(answered(first)[at.topic_id, 0]) == [(0, 2, 1)]
    second = await kafka.share_fetch(at.group, member, 1, max_records=3)
    assert runs(answered(second)[at.topic_id, 0]) == [(3, 9, 1)]


async def test_without_the_record_limit_batches_stay_whole(
    kafka: KafkaClient, harness: Harness, member: str
) -> None:
    at = await harness.readable(records=0)
    await harness.client.publish(at.topic, map(str, range(10)), partition=0)
    for version in (1, 2):
        name = unique("member")
        opened = await kafka.share_fetch(
            at.group, name, 0, {at.topic_id: [0]}, version=version, max_records=3
        )
        assert runs(answered(opened)[at.topic_id, 0]) == [(0, 9, version)]
        await kafka.share_acknowledge(at.group, name, -1)


async def test_acquired_runs_are_split_by_the_batch_size(
    kafka: KafkaClient, at: Readable, member: str
) -> None:
    """Kafka: ShareFetchAcknowledgeRequestTest with five records and a batch size of one."""
    opened = await kafka.share_fetch(at.group, member, 0, {at.topic_id: [0]}, max_records=5, batch_size=1)
    assert runs(answered(opened)[at.topic_id, 0]) == [(n, n, 1) for n in range(5)]


async def test_unknown_acquire_mode_is_rejected(kafka: KafkaClient, at: Readable, member: str) -> None:
    response = await kafka.share_fetch(at.group, member, 0, {at.topic_id: [0]}, share_acquire_mode=7)
    assert response.error_code == ErrorCode.INVALID_REQUEST


async def test_records_are_redelivered_up_to_the_delivery_limit(
    kafka: KafkaClient, harness: Harness, member: str
) -> None:
    at = await harness.readable(records=1, share_delivery_count_limit="2")
    assert await acquire(kafka, at, member) == [(0, 0, 1)]
    released = {(at.topic_id, 0): [(0, 0, RELEASE)]}
    again = await kafka.share_fetch(at.group, member, 1, acks=released, max_wait_ms=5000)
    assert runs(answered(again)[at.topic_id, 0]) == [(0, 0, 2)]
    last = await kafka.share_fetch(at.group, member, 2, acks=released, max_wait_ms=50)
    assert runs(answered(last)[at.topic_id, 0]) == []
    assert await harness.client.finished(at.group, at.topic_id) == {0}


async def test_groups_do_not_share_with_each_other(
    kafka: KafkaClient, harness: Harness, at: Readable, member: str
) -> None:
    other = await harness.client.group()
    await harness.client.heartbeat(other, member, 0, [at.topic])
    assert await acquire(kafka, at, member) == [(0, 9, 1)]
    assert await acquire(kafka, Readable(other, at.topic, at.topic_id), member) == [(0, 9, 1)]


# Renewing


async def test_renewal_keeps_records_and_fetches_none(
    kafka: KafkaClient, harness: Harness, member: str
) -> None:
    at = await harness.readable(records=3)
    await acquire(kafka, at, member)
    await harness.client.publish(at.topic, ["more"], partition=0)
    renewed = {(at.topic_id, 0): [(0, 2, RENEW)]}
    response = await kafka.share_fetch(at.group, member, 1, acks=renewed, is_renew_ack=True, **NO_SIZES)
    data = answered(response)[at.topic_id, 0]
    assert (data.acknowledge_error_code, runs(data)) == (0, [])
    mixed = {(at.topic_id, 0): [(0, 2, [1, 4, 1])]}
    by_itself = await kafka.share_acknowledge(at.group, member, 2, mixed, is_renew_ack=True)
    assert answered(by_itself)[at.topic_id, 0].error_code == 0
    assert await harness.client.finished(at.group, at.topic_id) == {0, 2}


@pytest.mark.parametrize("size", NO_SIZES)
async def test_renewing_fetch_with_sizes_is_rejected(
    kafka: KafkaClient, at: Readable, member: str, size: str
) -> None:
    response = await kafka.share_fetch(at.group, member, 0, is_renew_ack=True, **{**NO_SIZES, size: 1})
    assert (response.error_code, response.responses) == (ErrorCode.INVALID_REQUEST, [])


async def test_group_may_disable_renewal(kafka: KafkaClient, harness: Harness, member: str) -> None:
    at = await harness.readable(records=1, share_renew_acknowledge_enable="false")
    await acquire(kafka, at, member)
    renewed = {(at.topic_id, 0): [(0, 0, RENEW)]}
    response = await kafka.share_acknowledge(at.group, member, 1, renewed, is_renew_ack=True)
    assert answered(response)[at.topic_id, 0].error_code == ErrorCode.INVALID_RECORD_STATE


# Waiting


async def test_a_fetch_waits_for_the_next_record(kafka: KafkaClient, harness: Harness, member: str) -> None:
    at = await harness.readable(records=0)
    waiting = asyncio.create_task(
        kafka.share_fetch(at.group, member, 0, {at.topic_id: [0]}, max_wait_ms=15_000)
    )
    await harness.client.publish(at.topic, ["late"], partition=0)
    assert runs(answered(await waiting)[at.topic_id, 0]) == [(0, 0, 1)]


async def test_fetch_waits_for_released_records(
    kafka: KafkaClient, harness: Harness, at: Readable, member: str
) -> None:
    await acquire(kafka, at, member)
    async with harness.connect() as other:
        waiting = asyncio.create_task(
            other.share_fetch(at.group, unique("other"), 0, {at.topic_id: [0]}, max_wait_ms=15_000)
        )
        await kafka.share_acknowledge(at.group, member, 1, {(at.topic_id, 0): [(0, 9, RELEASE)]})
        assert runs(answered(await waiting)[at.topic_id, 0]) == [(0, 9, 2)]


async def test_empty_fetch_returns_at_its_deadline(kafka: KafkaClient, harness: Harness, member: str) -> None:
    at = await harness.readable(records=0)
    opened = await kafka.share_fetch(at.group, member, 0, {at.topic_id: [0]}, max_wait_ms=20)
    assert (opened.error_code, runs(answered(opened)[at.topic_id, 0])) == (0, [])


async def test_lasting_partition_error_does_not_cause_a_busy_loop(
    kafka: KafkaClient, harness: Harness, member: str
) -> None:
    """The error is returned once at once; after that a fetch waits for the other partitions."""
    at = await harness.readable(records=0)
    opened = await kafka.share_fetch(at.group, member, 0, {at.topic_id: [0, 7]}, max_wait_ms=15_000)
    assert answered(opened)[at.topic_id, 7].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    waiting = asyncio.create_task(kafka.share_fetch(at.group, member, 1, max_wait_ms=15_000))
    await harness.client.publish(at.topic, ["late"], partition=0)
    parts = answered(await waiting)
    assert runs(parts[at.topic_id, 0]) == [(0, 0, 1)]
    assert parts[at.topic_id, 7].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Connections that close


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_disconnect_releases_held_records(
    kafka: KafkaClient, harness: Harness, at: Readable, how: str
) -> None:
    async with harness.connect() as leaving:
        assert await acquire(leaving, at, unique("leaving")) == [(0, 9, 1)]
        waiting = asyncio.create_task(acquire(kafka, at, unique("staying")))
        if how == "close":
            await leaving.close()
        else:
            leaving.abort()
        assert await waiting == [(0, 9, 2)]


async def test_disconnect_releases_records_of_removed_partitions(
    kafka: KafkaClient, harness: Harness, at: Readable
) -> None:
    member = unique("leaving")
    async with harness.connect() as leaving:
        assert await acquire(leaving, at, member) == [(0, 9, 1)]
        forgotten = [part(78, "ForgottenTopic", topic_id=at.topic_id, partitions=[0])]
        await leaving.share_fetch(at.group, member, 1, max_wait_ms=0, forgotten_topics_data=forgotten)
    assert await acquire(kafka, at, unique("staying")) == [(0, 9, 2)]


async def test_client_that_disconnects_while_waiting_leaves_no_locks(
    kafka: KafkaClient, harness: Harness
) -> None:
    at = await harness.readable(records=0)
    member = unique("leaving")
    async with harness.connect() as leaving:
        await leaving.share_fetch(at.group, member, 0, {at.topic_id: [0]}, max_wait_ms=0)
        leaving.send(
            78,
            2,
            group_id=at.group,
            member_id=member,
            share_session_epoch=1,
            max_wait_ms=60_000,
            max_records=9,
        )
        await leaving.write(b"")
    await harness.client.publish(at.topic, ["for another"], partition=0)
    ((first, last, deliveries),) = await acquire(kafka, at, unique("staying"))
    assert (first, last) == (0, 0)
    # The closed connection may have acquired the record just before: then it was redelivered, which counts.
    assert deliveries in (1, 2)


async def test_closed_connection_keeps_the_session_of_another(
    kafka: KafkaClient, harness: Harness, at: Readable, member: str
) -> None:
    """A member that reconnected keeps its session when the old connection closes."""
    async with harness.connect() as old:
        await acquire(old, at, member)
        await kafka.share_fetch(at.group, member, 0, {at.topic_id: [0]}, max_wait_ms=0)
    acks = {(at.topic_id, 0): [(0, 9, ACCEPT)]}
    accepted = await kafka.share_acknowledge(at.group, member, 1, acks)
    assert (accepted.error_code, answered(accepted)[at.topic_id, 0].error_code) == (0, 0)


async def test_deleted_topic_is_unknown(
    kafka: KafkaClient, harness: Harness, at: Readable, member: str
) -> None:
    await acquire(kafka, at, member)
    await harness.client.delete(at.topic)
    epochs = iter(range(1, 1000))

    async def gone() -> bool:
        response = await kafka.share_fetch(at.group, member, next(epochs), max_wait_ms=10)
        found = answered(response).get((at.topic_id, 0))
        return found is not None and found.error_code == ErrorCode.UNKNOWN_TOPIC_ID

    await eventually(gone)
