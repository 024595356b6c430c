"""The calls of the asyncio producer, against a scripted gateway."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker import ErrorCode, IllegalStateError, KafkaError
from sharebroker.aio import publishing
from tests.unit.client.fake_gateway import FakeGateway
from tests.unit.client.producing import producing


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


async def test_full_buffer_fails_send_at_max_block_ms(gateway: FakeGateway) -> None:
    gateway.silent = True
    async with producing(gateway, buffer_memory=100, max_block_ms=1000, delivery_timeout_ms=5000) as producer:
        await producer.send("flights", b"x" * 100, partition=0)
        with pytest.raises(KafkaError, match="stayed full") as caught:
            await producer.send("flights", b"y", partition=0)
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        await producer.close(timeout=0)


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
