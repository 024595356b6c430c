"""Acknowledgements, credit and deliveries of one stream, against a scripted gateway."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker import AcknowledgeType, ErrorCode, KafkaError
from tests.testkit.waiting import eventually
from tests.unit.client.batches import batch
from tests.unit.client.consuming import joining, stream_of, values
from tests.unit.client.fake_gateway import FakeGateway


async def test_stream_identifies_its_member(gateway: FakeGateway) -> None:
    async with joining(gateway, max_poll_records=7, share_acquire_mode="record_limit") as consumer:
        stream = await stream_of(gateway)
        subscribe = stream.first.subscribe
        assert (subscribe.group_id, subscribe.member_id) == ("group", consumer.member_id)
        assert (subscribe.batch_size, subscribe.acquire_mode, list(subscribe.topics)) == (7, 1, [])
        assert len(consumer.member_id) == 22
        await eventually(lambda: consumer.acquisition_lock_timeout_ms == 400)


async def test_acknowledgements_of_one_loop_iteration_are_one_message(gateway: FakeGateway) -> None:
    gateway.auto_answer = False
    async with joining(gateway) as consumer:
        stream = await stream_of(gateway)
        stream.deliver(batch(0, values(10)), 0, 9, token=77)
        records = await consumer.poll(5)
        outcomes = [record.accept() for record in records[:9]]
        outcomes.append(records[9].reject("bad"))
        await eventually(lambda: len(stream.acknowledgements) == 2)
        accepted, rejected = stream.acknowledgements
        assert (accepted.first_offset, accepted.last_offset, accepted.type) == (0, 8, 1)
        assert (rejected.first_offset, rejected.HasField("last_offset"), rejected.reason) == (9, False, "bad")
        assert (accepted.lock_token, accepted.topic_id) == (77, "id")
        assert not any(outcome.done for outcome in outcomes)
        stream.answer()
        await asyncio.gather(*outcomes)


async def test_failed_batch_reaches_each_record(gateway: FakeGateway) -> None:
    gateway.auto_answer = False
    async with joining(gateway) as consumer:
        stream = await stream_of(gateway)
        stream.deliver(batch(0, values(2)), 0, 1)
        outcomes = [record.release(1.5) for record in await consumer.poll(5)]
        await eventually(lambda: stream.acknowledgements)
        assert stream.acknowledgements[0].delay_ms == 1500
        stream.answer(ErrorCode.INVALID_RECORD_STATE)
        results = await consumer.commit()
        assert [r.error and r.error.code for r in results] == [ErrorCode.INVALID_RECORD_STATE] * 2
        for outcome in outcomes:
            with pytest.raises(KafkaError):
                await outcome


async def test_gaps_are_acknowledged_automatically(gateway: FakeGateway) -> None:
    gateway.auto_answer = False
    async with joining(gateway) as consumer:
        stream = await stream_of(gateway)
        stream.deliver(batch(0, [b"0", None, None]), 0, 2)
        (record,) = await consumer.poll(5)
        await eventually(lambda: stream.acknowledgements)
        (gap,) = stream.acknowledgements
        assert (gap.first_offset, gap.last_offset, gap.type) == (1, 2, AcknowledgeType.GAP)
        record.accept()
        await eventually(lambda: len(stream.acknowledgements) == 2)
        stream.answer()


async def test_a_corrupt_batch_is_rejected_and_raised_after_the_records_before_it(
    gateway: FakeGateway,
) -> None:
    gateway.auto_answer = False
    async with joining(gateway) as consumer:
        stream = await stream_of(gateway)
        broken = bytearray(batch(1, values(2)))
        broken[70] ^= 1
        stream.deliver(batch(0, values(1)) + bytes(broken), 0, 2)
        (record,) = await consumer.poll(5)
        await eventually(lambda: stream.acknowledgements)
        (rejected,) = stream.acknowledgements
        assert (rejected.first_offset, rejected.type) == (1, AcknowledgeType.REJECT)
        assert "checksum" in rejected.reason
        record.accept()
        with pytest.raises(KafkaError) as caught:
            await consumer.poll(5)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        await eventually(lambda: len(stream.acknowledgements) == 2)
        stream.answer()


async def test_lost_lock_is_confirmed_by_an_empty_message(gateway: FakeGateway) -> None:
    async with joining(gateway) as consumer:
        stream = await stream_of(gateway)
        assert stream.first.subscribe.pause_on_lock_lost
        await consumer.poll(0)
        await eventually(lambda: stream.credit == 500)
        messages = stream.messages
        stream.lose(0, 3)
        await eventually(lambda: stream.messages == messages + 1)
