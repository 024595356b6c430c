"""Both producers against a scripted gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sharebroker import ErrorCode, IllegalStateError, KafkaError, ProducerConfig
from sharebroker.aio import Producer, publishing
from sharebroker.blocking.producer import Producer as BlockingProducer
from tests.testkit.waiting import eventually
from tests.unit.client.fake_gateway import FakeGateway


@pytest.fixture
async def gateway() -> AsyncIterator[FakeGateway]:
    async with FakeGateway() as fake:
        yield fake


def producing(gateway: FakeGateway, **config: Any) -> Producer:
    return Producer(gateway.address, ProducerConfig(retry_backoff_ms=10, retry_backoff_max_ms=20, **config))


async def test_sends_of_one_loop_iteration_are_one_request(gateway: FakeGateway) -> None:
    async with producing(gateway) as producer:
        sent = [await producer.send("flights", b"%d" % n, partition=1) for n in range(3)]
        positions = [await publication for publication in sent]
    assert [(position.partition, position.offset) for position in positions] == [(1, 0), (1, 1), (1, 2)]
    assert len(gateway.produced) == 1


async def test_send_waits_for_new_topic(gateway: FakeGateway) -> None:
    gateway.topic_partitions = 0
    async with producing(gateway) as producer:
        sending = asyncio.create_task(producer.publish("flights", b"v"))
        await asyncio.sleep(0)
        gateway.topic_partitions = 1
        assert (await sending).partition == 0


@pytest.mark.parametrize(("max_block_ms", "appears_within"), [(500, 60.0), (60_000, 0.05)])
async def test_missing_topic_is_not_awaited_for_long(
    gateway: FakeGateway, max_block_ms: int, appears_within: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "_APPEARS_WITHIN", appears_within)
    gateway.topic_partitions = 0
    async with producing(gateway, max_block_ms=max_block_ms) as producer:
        with pytest.raises(KafkaError) as caught:
            await producer.send("flights", b"v")
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_absent_server_is_awaited_until_delivery_timeout() -> None:
    async with Producer("127.0.0.1:1", ProducerConfig(delivery_timeout_ms=100)) as producer:
        with pytest.raises(KafkaError) as caught:
            await producer.send("flights", b"v")
        assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_records_for_stopped_server_fail_at_delivery_timeout(
    gateway: FakeGateway,
) -> None:
    async with producing(gateway, delivery_timeout_ms=1500) as producer:
        await producer.publish("flights", b"1", partition=0)
        await gateway.stop()
        sent = [await producer.send("flights", b"2", partition=0) for _ in range(3)]
        for publication in sent:
            with pytest.raises(KafkaError) as caught:
                await publication
            assert caught.value.code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION)
        await producer.flush()


async def test_unconfirmed_record_fails_at_delivery_timeout(gateway: FakeGateway) -> None:
    gateway.silent = True
    async with producing(gateway, delivery_timeout_ms=1500) as producer:
        first = await producer.send("flights", b"1", partition=0)
        await eventually(lambda: gateway.produce_requests)
        behind = await producer.send("flights", b"2", partition=0)
        for publication in (first, behind):
            with pytest.raises(KafkaError, match="within 1500 ms") as caught:
                await publication
            assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_timed_out_request_is_retried_on_another_stream(gateway: FakeGateway) -> None:
    gateway.silent = True
    async with producing(gateway, request_timeout_ms=300) as producer:
        sent = await producer.send("flights", b"1", partition=0)
        await eventually(lambda: gateway.produce_requests >= 2)
        gateway.silent = False
        assert (await sent).partition == 0


async def test_full_buffer_fails_send_at_max_block_ms(gateway: FakeGateway) -> None:
    gateway.silent = True
    async with producing(gateway, buffer_memory=100, max_block_ms=1000, delivery_timeout_ms=5000) as producer:
        await producer.send("flights", b"x" * 100, partition=0)
        with pytest.raises(KafkaError, match="stayed full") as caught:
            await producer.send("flights", b"y", partition=0)
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        await producer.close(timeout=0)


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.LEADER_NOT_AVAILABLE]
)
async def test_retriable_errors_are_retried(gateway: FakeGateway, error: ErrorCode) -> None:
    gateway.produce_errors = [error, error]
    async with producing(gateway) as producer:
        first = await producer.send("flights", b"1", partition=0)
        await eventually(lambda: len(gateway.produce_errors) < 2)
        await producer.send("flights", b"2", partition=0)
        await first
    assert gateway.stored(0) == [b"1", b"2"]


async def test_fatal_error_is_not_retried(gateway: FakeGateway) -> None:
    gateway.produce_errors = [ErrorCode.INVALID_RECORD]
    async with producing(gateway) as producer:
        with pytest.raises(KafkaError) as caught:
            await producer.publish("flights", b"1")
        assert caught.value.code is ErrorCode.INVALID_RECORD
        await producer.publish("flights", b"2", key=b"k")


async def test_a_full_buffer_makes_senders_wait(gateway: FakeGateway) -> None:
    gateway.silent = True
    async with producing(gateway, buffer_memory=100) as producer:
        await producer.send("flights", b"x" * 100, partition=0)
        second = asyncio.create_task(producer.send("flights", b"y", partition=0))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(second), 0.05)
        await producer.close(timeout=0)
        second.cancel()


async def test_close_waits_at_most_its_timeout(gateway: FakeGateway) -> None:
    gateway.silent = True
    producer = producing(gateway)
    sent = await producer.send("flights", b"v")
    await producer.close(timeout=0.05)
    with pytest.raises(KafkaError) as caught:
        await sent
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
    with pytest.raises(IllegalStateError, match="closed"):
        await producer.send("flights", b"v")
    await producer.close()


async def test_lingering_ends_with_a_flush(gateway: FakeGateway) -> None:
    async with producing(gateway, linger_ms=60_000) as producer:
        sent = await producer.send("flights", b"v")
        await asyncio.sleep(0)
        assert not sent.done
        await producer.flush()
        assert sent.done


async def test_blocking_producer(gateway: FakeGateway) -> None:
    gateway.produce_errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    def publish() -> None:
        with BlockingProducer(gateway.address) as producer:
            sent = [producer.send("flights", b"%d" % n, partition=0) for n in range(1000)]
            assert sent[999].result(10).offset == 999
            producer.flush()
            assert producer.publish("flights", b"last", partition=0).partition == 0
        producer.close()
        with pytest.raises(IllegalStateError, match="closed"):
            producer.send("flights", b"v")

    await asyncio.to_thread(publish)
    assert gateway.stored(0) == [b"%d" % n for n in range(1000)] + [b"last"]
