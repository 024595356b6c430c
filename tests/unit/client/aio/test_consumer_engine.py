"""The consumer's background after failures, against a scripted gateway."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from sharebroker import AcknowledgeType, ErrorCode, KafkaError, LockLost, Record, RecordDeserializationError
from tests.testkit.waiting import eventually
from tests.unit.client.batches import batch
from tests.unit.client.consuming import joining, stream_of, values
from tests.unit.client.fake_gateway import FAR, FakeGateway, Stream


async def test_no_credit_is_sent_before_first_poll(gateway: FakeGateway) -> None:
    async with joining(gateway, max_poll_records=40) as consumer:
        stream = await stream_of(gateway)
        assert stream.credit == 0

        async def requested() -> bool:  # the consumer may not have received its assignment yet
            await consumer.poll(0)
            return stream.credit == 40

        await eventually(requested)


async def test_fast_iteration_gets_more_credit(gateway: FakeGateway) -> None:
    async with joining(gateway) as consumer:
        stream = await stream_of(gateway)
        records = aiter(consumer)
        following = asyncio.ensure_future(anext(records))
        await eventually(lambda: stream.credit == 16)
        stream.deliver(batch(0, values(16)), 0, 15)
        (await following).accept()
        for _ in range(15):
            (await anext(records)).accept()
        following = asyncio.ensure_future(anext(records))
        await eventually(lambda: stream.credit == 16 + 32)
        following.cancel()


async def test_records_with_lost_lock_are_not_returned(gateway: FakeGateway) -> None:
    async with joining(gateway) as consumer:
        stream = await stream_of(gateway)
        stream.deliver(batch(0, values(3)), 0, 2)
        stream.lose(0, 2)
        stream.deliver(batch(3, values(2)), 3, 4)
        await eventually(lambda: consumer._engine._accumulator.unacknowledged == 2)
        assert [record.offset for record in await consumer.poll(5)] == [3, 4]


async def test_lost_locks_are_reported_and_free_credit(gateway: FakeGateway) -> None:
    lost: list[LockLost] = []
    exactly = {"prefetch_records": 0, "max_poll_records": 4}
    async with joining(gateway, lock_lost_callback=lost.append, **exactly) as consumer:
        stream = await stream_of(gateway)
        polling = asyncio.ensure_future(consumer.poll(5))
        await eventually(lambda: stream.credit == 4)
        stream.deliver(batch(0, values(4)), 0, 3)
        records = await polling
        records[0].accept()
        stream.lose(1, 3)
        await eventually(lambda: records[1].lock_lost)
        assert [record.lock_lost for record in records] == [False, True, True, True]
        polling = asyncio.ensure_future(consumer.poll(5))
        await eventually(lambda: stream.credit == 8)
        assert [(one.topic, one.partition, one.offset) for one in lost] == [
            ("flights", 0, n) for n in (1, 2, 3)
        ]
        stream.deliver(batch(4, values(4)), 4, 7)
        for record in await polling:
            record.accept()


@pytest.mark.parametrize("cause", ["lock timed out", "stream ended", "token expired"])
async def test_each_received_record_with_a_lost_lock_is_reported_once(
    gateway: FakeGateway, caplog: pytest.LogCaptureFixture, cause: str
) -> None:
    lost: list[LockLost] = []
    async with joining(gateway, lock_lost_callback=lost.append, max_poll_records=6) as consumer:
        stream = await stream_of(gateway)
        stream.deliver(batch(0, [*values(5), None]), 0, 5, count=2)
        stream.deliver(batch(6, values(2)), 6, 7, token=2)  # the application does not receive these
        records = await consumer.poll(5)
        await records[0].accept()
        gateway.auto_answer = False
        unconfirmed = records[1].accept()
        await eventually(lambda: len(stream.acknowledgements) == 1)
        if cause == "lock timed out":
            stream.lose(0, 2)
            stream.lose(1, 5)
            stream.lose(6, 7, token=2)
            await eventually(lambda: records[4].lock_lost)
        stream.end(
            KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "The access token expired.")
            if cause == "token expired"
            else grpc.StatusCode.UNAVAILABLE
        )
        with pytest.raises(KafkaError):
            await unconfirmed
        for record in records[2:]:
            record.accept()
        await consumer.poll(0.01)
        assert [(one.offset, one.delivery_count) for one in lost] == [(n, 2) for n in (1, 2, 3, 4)]
    warnings = [entry.message for entry in caplog.records if " lost: " in entry.message]
    assert len(warnings) == (2 if cause == "lock timed out" else 1)
    assert all("flights-0@" in text and "(delivery 2)" in text for text in warnings)


async def test_records_that_are_given_up_or_confirmed_are_not_reported(
    gateway: FakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    lost: list[LockLost] = []
    async with joining(gateway, lock_lost_callback=lost.append) as consumer:
        stream = await stream_of(gateway)
        stream.deliver(batch(0, values(4)), 0, 3)
        records = await consumer.poll(5)
        await asyncio.gather(*(record.accept() for record in records[:2]))
    assert lost == []
    assert not [entry for entry in caplog.records if " lost: " in entry.message]


async def test_an_iteration_leaves_out_records_with_a_lost_lock(gateway: FakeGateway) -> None:
    async with joining(gateway) as consumer:
        stream = await stream_of(gateway)
        stream.deliver(batch(0, values(4)), 0, 3)
        records = aiter(consumer)
        (await anext(records)).accept()
        stream.lose(1, 2)
        await eventually(lambda: stream.acknowledgements or stream.all_acknowledgements)
        await eventually(lambda: consumer._engine.prefetched[0].lock_lost)  # no public view of these
        assert (await anext(records)).offset == 3


async def test_close_releases_seen_records_and_undoes_the_rest(
    gateway: FakeGateway,
) -> None:
    async with joining(gateway, max_poll_records=3, share_acquire_mode="record_limit") as consumer:
        stream = await stream_of(gateway)
        stream.deliver(batch(0, values(10)), 0, 9)
        records = await consumer.poll(5)
        await records[0].accept()
        heartbeats = len(gateway.heartbeats)
    ack = [(a.first_offset, a.last_offset, a.type, a.unseen) for a in stream.all_acknowledgements]
    assert ack[1:] == [(1, 2, AcknowledgeType.RELEASE, False)]
    assert (stream.rest_unseen, stream.finished) == (True, True)
    assert gateway.heartbeats[-1].member_epoch == -1
    assert len(gateway.heartbeats) > heartbeats


async def test_close_is_bounded_if_server_keeps_stream_open(
    gateway: FakeGateway,
) -> None:
    gateway.ends_streams = False
    consumer = joining(gateway)
    await consumer.subscribe(["flights"])
    await stream_of(gateway)
    async with asyncio.timeout(5):
        await consumer.close(timeout=0.2)


async def test_unpolled_records_are_undone_in_time(gateway: FakeGateway) -> None:
    async with joining(gateway, max_poll_records=2, share_acquire_mode="record_limit") as consumer:
        stream = await stream_of(gateway)
        await eventually(lambda: consumer.acquisition_lock_timeout_ms == 400)
        stream.deliver(batch(0, values(6)), 0, 5)
        seen = await consumer.poll(5)
        await eventually(lambda: stream.all_acknowledgements)
        (undone,) = stream.all_acknowledgements
        assert (undone.first_offset, undone.last_offset, undone.unseen) == (2, 5, True)
        assert undone.type == AcknowledgeType.RELEASE
        await eventually(lambda: stream.credit - 6 <= 0)  # and no more credit is sent
        assert [record.lock_lost for record in seen] == [False, False]
        for record in seen:
            record.accept()
        polling = asyncio.ensure_future(consumer.poll(5))
        await eventually(lambda: stream.credit - 6 >= 2)
        stream.deliver(batch(2, values(1)), 2, 2, token=2)
        (record,) = await polling
        record.accept()


async def test_lost_connection_fails_pending_and_reconnects(gateway: FakeGateway) -> None:
    gateway.auto_answer = False
    async with joining(gateway) as consumer:
        stream = await stream_of(gateway)
        stream.deliver(batch(0, values(2)), 0, 1)
        sent, unsent = await consumer.poll(5)
        outcome = sent.accept()
        await eventually(lambda: stream.acknowledgements)
        stream.end(grpc.StatusCode.UNAVAILABLE)
        with pytest.raises(KafkaError, match="connection was lost"):
            await outcome
        with pytest.raises(KafkaError, match="connection was lost"):
            await unsent.accept()
        second = await stream_of(gateway, 2)
        second.deliver(batch(0, values(1)), 0, 0)
        (record,) = await consumer.poll(5)
        record.accept()
        await eventually(lambda: second.acknowledgements)
        second.answer()


async def test_stream_ended_without_error_is_reopened(gateway: FakeGateway) -> None:
    async with joining(gateway):
        (await stream_of(gateway)).end()
        await stream_of(gateway, 2)


async def test_fatal_stream_error_ends_membership(gateway: FakeGateway) -> None:
    gateway.refusal = grpc.StatusCode.UNIMPLEMENTED
    async with joining(gateway) as consumer:
        for _ in range(2):
            with pytest.raises(KafkaError) as caught:
                await consumer.poll(5)
            assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
        with pytest.raises(KafkaError):
            await consumer.subscribe(["planes"])


UNAUTHENTICATED = KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "Authentication failed.")


async def test_stream_that_ends_with_its_access_token_is_reopened(gateway: FakeGateway) -> None:
    async with joining(gateway) as consumer:
        stream = await stream_of(gateway)
        await eventually(lambda: consumer.acquisition_lock_timeout_ms == 400)
        stream.end(UNAUTHENTICATED)
        second = await stream_of(gateway, 2)
        second.deliver(batch(0, values(1)), 0, 0)
        (record,) = await consumer.poll(5)
        record.accept()


async def test_rejected_authentication_ends_membership(gateway: FakeGateway) -> None:
    gateway.refusal = UNAUTHENTICATED
    async with joining(gateway) as consumer:
        with pytest.raises(KafkaError) as caught:
            await consumer.poll(5)
        assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_locks_are_renewed_until_acknowledged(gateway: FakeGateway) -> None:
    gateway.auto_answer = False
    async with joining(gateway, auto_renew=True) as consumer:
        stream = await stream_of(gateway)
        stream.deliver(batch(0, values(4)), 0, 3)
        records = await consumer.poll(5)
        records[1].accept()
        await eventually(lambda: len(stream.acknowledgements) >= 3)
        accepted, *renewals = stream.acknowledgements
        assert accepted.type == AcknowledgeType.ACCEPT
        assert [(r.first_offset, r.type) for r in renewals[:2]] == [
            (0, AcknowledgeType.RENEW),
            (2, AcknowledgeType.RENEW),
        ]
        stream.answer(deadline=FAR)
        await eventually(lambda: records[3].deadline == FAR)
        assert records[3].acknowledgement is None
        for record in (records[0], *records[2:]):
            record.accept()
        await eventually(lambda: stream.acknowledgements)
        stream.answer()


def renewed(stream: Stream) -> set[int]:
    """Returns the offsets whose renewal was requested."""
    renewals = [ack for ack in stream.all_acknowledgements if ack.type == AcknowledgeType.RENEW]
    return {offset for ack in renewals for offset in range(ack.first_offset, last_of(ack) + 1)}


def last_of(ack: Any) -> int:
    return int(ack.last_offset if ack.HasField("last_offset") else ack.first_offset)


async def test_locks_of_iterated_records_are_renewed(gateway: FakeGateway) -> None:
    async with joining(
        gateway, auto_renew=True, share_acquire_mode="record_limit", max_poll_records=1
    ) as consumer:
        stream = await stream_of(gateway)
        stream.deliver(batch(0, values(4)), 0, 3)
        records = aiter(consumer)
        held = [await anext(records) for _ in range(4)]
        await eventually(lambda: renewed(stream) == {0, 1, 2, 3})
        await asyncio.gather(*(record.accept() for record in held))


async def test_locks_behind_a_failed_deserialization_are_renewed(gateway: FakeGateway) -> None:
    def refuse_2(record: Record) -> None:
        if record.offset == 2:
            raise ValueError

    async with joining(gateway, auto_renew=True, deserializer=refuse_2) as consumer:
        stream = await stream_of(gateway)
        stream.deliver(batch(0, values(4)), 0, 3)
        first = await consumer.poll(5)
        for record in first:
            await record.accept()
        with pytest.raises(RecordDeserializationError):
            await consumer.poll(5)
        (last,) = await consumer.poll(5)
        await eventually(lambda: 3 in renewed(stream))
        await last.accept()


async def test_application_may_change_polled_list(gateway: FakeGateway) -> None:
    async with joining(gateway, auto_renew=True, share_acknowledgement_mode="implicit") as consumer:
        stream = await stream_of(gateway)
        stream.deliver(batch(0, values(3)), 0, 2)
        records = await consumer.poll(5)
        while records:
            records.pop()
        await eventually(lambda: renewed(stream) == {0, 1, 2})
        assert [result.offset for result in await consumer.commit()] == [0, 1, 2]
