"""The sessions of a process: who is asked, what happens when a broker or the topic is away."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.link import BrokerAddress
from sharebroker_server.upstream_log.fetching import FetchSettings
from sharebroker_server.upstream_log.sessions import AWAY_SECONDS
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch
from tests.unit.record_log.harness import code_of
from tests.unit.upstream_log.harness import NAME, TOPIC, running


async def test_an_idle_log_costs_one_request_in_each_wait() -> None:
    async with running(FetchSettings(max_wait_ms=50)) as harness:
        log = await harness.open()
        await eventually(lambda: len(harness.cluster.fetches) >= 3)
        waits = {fetch.max_wait_ms for fetch in harness.cluster.fetches}
        assert waits == {50}
        await log.close()
        await eventually(lambda: not harness.logs.logs)
        count = len(harness.cluster.fetches)
        await asyncio.sleep(0.2)
        assert len(harness.cluster.fetches) <= count + 1


async def test_a_deleted_topic_does_not_end_the_session() -> None:
    async with running() as harness:
        log = await harness.open()
        harness.cluster.topic_exists = False
        harness.cluster.append(batch(1))
        await eventually(lambda: harness.logs.counters.errors)
        assert log.records_end_offset == 0
        harness.cluster.topic_exists = True
        await eventually(lambda: log.records_end_offset == 1)


async def test_a_connection_that_ends_is_replaced() -> None:
    async with running() as harness:
        log = await harness.open()
        await eventually(lambda: harness.cluster.fetches)
        for link in harness.client._links.values():
            if link._connection is not None:
                link._connection.close()
        harness.cluster.append(batch(1))
        await eventually(lambda: log.records_end_offset == 1)


async def test_a_partition_without_leader_cannot_be_opened() -> None:
    async with running() as harness:
        harness.cluster.topic_exists = False
        opening = asyncio.create_task(code_of(harness.logs.open(NAME, 1, TOPIC, "", 0, harness.lease)))
        await eventually(lambda: harness.cluster.brokers[0].received)
        harness.cluster.topic_exists = True
        assert await harness.open() is not None
        opening.cancel()


async def test_no_log_is_opened_a_moment_after_no_broker_responded() -> None:
    async with running() as harness:
        addresses = harness.client._bootstrap
        harness.client._bootstrap = (BrokerAddress("127.0.0.1", 1),)
        with pytest.raises(KafkaError):
            await harness.client.refresh()
        harness.client._bootstrap = addresses
        with pytest.raises(
            KafkaError, match="t-0 cannot be read, no broker of its cluster responds: "
        ) as failed:
            await harness.open()
        assert (failed.value.code, failed.value.retry_after) == (ErrorCode.KAFKA_STORAGE_ERROR, AWAY_SECONDS)
        await harness.client.refresh()
        assert await harness.open() is not None


async def test_an_old_failure_does_not_prevent_another_attempt() -> None:
    async with running() as harness:
        addresses = harness.client._bootstrap
        harness.client._bootstrap = ()
        with pytest.raises(KafkaError, match="There is no bootstrap address"):
            await harness.client.refresh()
        harness.client._bootstrap = addresses
        harness.client._away_at -= 2 * AWAY_SECONDS
        assert await harness.open() is not None


async def test_a_leader_that_another_refresh_found_is_followed() -> None:
    async with running(FetchSettings(max_wait_ms=50)) as harness:
        log = await harness.open()
        harness.cluster.elect(1, deposed=True)  # the session's broker reports no error
        harness.client._first = 1
        await harness.client.refresh()
        assert harness.client.metadata.leader(TOPIC, 0) == (1, 1)
        harness.cluster.append(batch(1))
        await eventually(lambda: log.records_end_offset == 1)


async def test_a_partition_without_a_leader_is_followed_once_it_has_one() -> None:
    async with running(FetchSettings(max_wait_ms=50)) as harness:
        log = await harness.open()
        harness.client.doubt_leaders(TOPIC)
        harness.cluster.append(batch(1))
        await eventually(lambda: log.records_end_offset == 1)
