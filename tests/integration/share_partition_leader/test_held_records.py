"""Redelivery of held records, over real sockets and Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from time import monotonic

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.records.batches import CODECS, BatchBuilder
from tests.support.client import ACCEPT, RELEASE, TIMEOUT, Client, connected, decision, unique

LONG = "60000"
"""A lock duration (ms) that no test waits for."""


@pytest.fixture
async def client(server: str) -> AsyncIterator[Client]:
    """Provides raw stubs of a running Sharebroker: one process, then four."""
    async with connected(server) as client:
        yield client


async def _acknowledge(
    client: Client, group_id: str, member: str, decision: share.AcknowledgeRequest.Decision
) -> ErrorCode:
    request = share.AcknowledgeRequest(group_id=group_id, member_id=member, acknowledgements=[decision])
    response = await client.share.Acknowledge(request, timeout=TIMEOUT)
    return ErrorCode(response.results[0].error_code)


async def test_delayed_release_is_redelivered_after_the_delay(client: Client) -> None:
    topic, _ = await client.create()
    group_id = await client.group()
    await client.publish(topic, ["now", "later"])
    first, second = await client.acquire_all(group_id, topic, 2, "m1")
    later = decision(second, RELEASE)
    later.delay_ms = 1500
    released = monotonic()
    assert await _acknowledge(client, group_id, "m1", later) is ErrorCode.NONE
    assert await _acknowledge(client, group_id, "m1", decision(first, RELEASE)) is ErrorCode.NONE
    assert [record.text for record in await client.acquire_all(group_id, topic, 1, "m2")] == ["now"]
    (again,) = await client.acquire_all(group_id, topic, 1, "m2")
    assert monotonic() - released >= 1.5
    assert (again.text, again.delivery_count) == ("later", 2)
    assert await _acknowledge(client, group_id, "m1", decision(second)) is ErrorCode.INVALID_RECORD_STATE
    assert await _acknowledge(client, group_id, "m2", decision(again)) is ErrorCode.NONE


async def test_records_that_do_not_fit_decoded_keep_their_delivery_count(client: Client) -> None:
    topic, topic_id = await client.create()
    group_id = await client.group()
    builder = BatchBuilder(CODECS["zstd"], 16 << 20)
    for _ in range(10):
        builder.append(0, None, bytes(1 << 20))
    sent = produce.ProduceRequest.PartitionData(index=0, records=builder.build())
    data = produce.ProduceRequest.TopicData(name=topic, partition_data=[sent])
    await client.produce.Produce(produce.ProduceRequest(topic_data=[data]), timeout=TIMEOUT)
    responses: list[int] = []
    while sum(responses) < 10:
        acquired = await client.acquire(group_id, topic, 10, member="m1")  # a response of 4 MiB at most
        assert {record.delivery_count for record in acquired.records} == {1}
        assert not any(await client.acknowledge(group_id, "m1", acquired.records))
        responses.append(len(acquired.records))
    assert max(responses) == 3
    assert await client.finished(group_id, topic_id) == set(range(10))


async def test_lock_token_is_invalid_once_its_record_is_finished(client: Client) -> None:
    topic, topic_id = await client.create()
    group_id = await client.group()
    await client.publish(topic, ["a", "b"])
    records = await client.acquire_all(group_id, topic, 2, "m1")
    assert await client.acknowledge(group_id, "m1", records) == [ErrorCode.NONE] * 2
    assert await client.acknowledge(group_id, "m1", records, RELEASE) == [ErrorCode.INVALID_RECORD_STATE] * 2
    assert await client.finished(group_id, topic_id) == {0, 1}


async def test_leaving_member_releases_its_records_at_once(client: Client) -> None:
    topic, _ = await client.create()
    group_id = await client.group(share_record_lock_duration_ms=LONG)
    await client.publish(topic, ["a", "b", "c"])
    member = unique("member")
    await client.heartbeat(group_id, member, 0, [topic])
    held = await client.acquire_all(group_id, topic, 3, member)
    await client.heartbeat(group_id, member, -1)
    again = await client.acquire_all(group_id, topic, 3, "another")
    assert {record.delivery_count for record in again} == {2}
    assert await client.acknowledge(group_id, member, held, ACCEPT) == [ErrorCode.INVALID_RECORD_STATE] * 3


async def test_member_whose_session_times_out_releases_its_records(client: Client) -> None:
    topic, _ = await client.create()
    group_id = await client.group(
        share_record_lock_duration_ms=LONG, share_session_timeout_ms="1000", share_heartbeat_interval_ms="100"
    )
    await client.publish(topic, ["a"])
    member = unique("member")
    await client.heartbeat(group_id, member, 0, [topic])
    await client.acquire_all(group_id, topic, 1, member)
    (again,) = await client.acquire_all(group_id, topic, 1, "another")
    assert again.delivery_count == 2


async def test_thousands_of_records_due_at_once_are_redelivered(client: Client) -> None:
    """One decision about all of them gives them one time."""
    records = 2000
    topic, _ = await client.create()
    group_id = await client.group(share_record_lock_duration_ms=LONG)
    await client.publish(topic, map(str, range(records)))
    held = [await client.acquire_all(group_id, topic, records // 2, "m1") for _ in range(2)]
    all_of_them = share.AcknowledgeRequest.Decision(topic=topic, last_offset=records - 1, delay_ms=1000)
    all_of_them.type = decision(held[0][0], RELEASE).type
    released = monotonic()
    assert await _acknowledge(client, group_id, "m1", all_of_them) is ErrorCode.NONE
    again = await client.acquire_all(group_id, topic, records // 2, "m2")
    assert monotonic() - released >= 1.0
    again += await client.acquire_all(group_id, topic, records // 2, "m2")
    assert sorted(record.offset for record in again) == list(range(records))
    assert {record.delivery_count for record in again} == {2}
