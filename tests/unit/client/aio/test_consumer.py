"""The calls of the asyncio consumer, against a scripted gateway."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker import ErrorCode, IllegalStateError, WakeupError
from tests.testkit.waiting import eventually
from tests.unit.client.batches import batch
from tests.unit.client.consuming import joining, stream_of, values
from tests.unit.client.fake_gateway import FakeGateway


async def test_commit_covers_all_polls_since_the_last(gateway: FakeGateway) -> None:
    async with joining(gateway) as consumer:
        stream = await stream_of(gateway)
        for offset in range(3):
            stream.deliver(batch(offset, values(1)), offset, offset, token=offset)
            (record,) = await consumer.poll(5)
            await record.accept()
        assert [result.offset for result in await consumer.commit()] == [0, 1, 2]
        assert await consumer.commit() == []


async def test_redelivered_record_is_returned_in_a_poll_of_its_own(gateway: FakeGateway) -> None:
    async with joining(gateway) as consumer:
        stream = await stream_of(gateway)
        for offset, count in ((0, 1), (1, 1), (2, 4), (3, 1)):
            stream.deliver(batch(offset, values(1)), offset, offset, token=offset, count=count)
        polls: list[list[int]] = []
        async with asyncio.timeout(30):
            while sum(map(len, polls)) < 4:  # the number of polls depends on when the batches arrive
                records = await consumer.poll(5)
                polls.append([record.offset for record in records])
                for record in records:
                    record.accept()
        assert [offset for offsets in polls for offset in offsets] == [0, 1, 2, 3]
        assert [2] in polls


async def test_unconfirmed_commit_times_out(gateway: FakeGateway) -> None:
    gateway.auto_answer = False
    async with joining(gateway) as consumer:
        stream = await stream_of(gateway)
        stream.deliver(batch(0, values(1)), 0, 0)
        (record,) = await consumer.poll(5)
        record.accept()
        (result,) = await consumer.commit(timeout=0.05)
        assert result.error is not None
        assert result.error.code is ErrorCode.REQUEST_TIMED_OUT
        await consumer.close(timeout=0.05)
    assert record.acknowledgement is not None
    assert record.acknowledgement.error is not None


async def test_close_leaves_group_and_rejects_further_calls(gateway: FakeGateway) -> None:
    consumer = joining(gateway)
    async with consumer:
        stream = await stream_of(gateway)
        records = aiter(consumer)
        following = asyncio.ensure_future(anext(records))
        stream.deliver(batch(0, values(1)), 0, 0)
        await following
    assert gateway.heartbeats[-1].member_epoch == -1
    await eventually(lambda: stream.ended)
    with pytest.raises(IllegalStateError, match="closed"):
        await consumer.poll(1)
    assert [record async for record in consumer] == []
    await consumer.close()


async def test_unsubscribing_and_subscribing_again(gateway: FakeGateway) -> None:
    async with joining(gateway) as consumer:
        stream = await stream_of(gateway)
        await consumer.unsubscribe()
        await eventually(lambda: stream.ended)
        assert gateway.heartbeats[-1].member_epoch == -1
        await consumer.subscribe("flights")
        second = await stream_of(gateway, 2)
        second.deliver(batch(0, values(1)), 0, 0)
        assert len(await consumer.poll(5)) == 1


async def test_iteration_continues_after_wakeup(gateway: FakeGateway) -> None:
    async with joining(gateway) as consumer:
        stream = await stream_of(gateway)
        consumer.wakeup()
        with pytest.raises(WakeupError):
            async for _ in consumer:
                pass
        stream.deliver(batch(0, values(1)), 0, 0)
        async for record in consumer:
            assert record.offset == 0
            break
