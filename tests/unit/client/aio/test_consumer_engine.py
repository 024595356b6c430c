"""The asyncio consumer when things go wrong, against a scripted gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from sharebroker import (
    AcknowledgeType,
    ErrorCode,
    IllegalStateError,
    KafkaError,
    LockLost,
    Record,
    RecordDeserializationError,
    TopicPartition,
    WakeupError,
)
from sharebroker.aio import ShareConsumer
from sharebroker.consumer.config import ConsumerConfig
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2 import ShareGroupHeartbeatRequest
from tests.testkit.waiting import eventually
from tests.unit.client.batches import batch
from tests.unit.client.fake_gateway import FAR, FakeGateway, Stream


@pytest.fixture
async def gateway() -> AsyncIterator[FakeGateway]:
    async with FakeGateway() as fake:
        yield fake


def joining(gateway: FakeGateway, **config: Any) -> ShareConsumer:
    settings = ConsumerConfig(retry_backoff_ms=10, retry_backoff_max_ms=20, **config)
    return ShareConsumer(gateway.address, "group", ["flights"], settings)


async def stream_of(gateway: FakeGateway, number: int = 1) -> Stream:
    """The gateway's `number`-th stream, once its client has been assigned partitions."""
    await eventually(lambda: len(gateway.streams) >= number and gateway.streams[number - 1].assignment)
    return gateway.streams[number - 1]


def values(count: int) -> list[bytes | None]:
    return [b"v%d" % n for n in range(count)]


async def test_stream_identifies_its_member(gateway: FakeGateway) -> None:
    async with joining(gateway, max_poll_records=7, share_acquire_mode="record_limit") as consumer:
        stream = await stream_of(gateway)
        subscribe = stream.first.subscribe
        assert (subscribe.group_id, subscribe.member_id) == ("group", consumer.member_id)
        assert (subscribe.batch_size, subscribe.acquire_mode, list(subscribe.topics)) == (7, 1, [])
        assert len(consumer.member_id) == 22
        await eventually(lambda: consumer.acquisition_lock_timeout_ms == 400)


async def test_no_credit_is_sent_before_first_poll(gateway: FakeGateway) -> None:
    async with joining(gateway, max_poll_records=40) as consumer:
        stream = await stream_of(gateway)
        assert stream.credit == 0

        async def requested() -> bool:  # the consumer may not have received its assignment yet partitions
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
        assert lost == [LockLost("flights", 0, range(1, 4))]
        stream.deliver(batch(4, values(4)), 4, 7)
        for record in await polling:
            record.accept()


async def test_lost_lock_is_answered_by_an_empty_message(gateway: FakeGateway) -> None:
    async with joining(gateway) as consumer:
        stream = await stream_of(gateway)
        assert stream.first.subscribe.pause_on_lock_lost
        await consumer.poll(0)
        await eventually(lambda: stream.credit == 500)
        messages = stream.messages
        stream.lose(0, 3)
        await eventually(lambda: stream.messages == messages + 1)


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
        await eventually(lambda: stream.credit - 6 <= 0)  # and no more is requested for
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


async def test_fatal_heartbeat_error_ends_membership(gateway: FakeGateway) -> None:
    gateway.heartbeat_errors = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    async with joining(gateway) as consumer:
        with pytest.raises(KafkaError) as caught:
            await consumer.poll(5)
        assert caught.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_unauthorized_topic_is_raised_once(gateway: FakeGateway) -> None:
    gateway.heartbeat_errors = [ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    async with joining(gateway) as consumer:
        with pytest.raises(KafkaError) as caught:
            await consumer.poll(5)
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await consumer.poll(0) == []


async def test_fenced_member_rejoins_with_its_id(gateway: FakeGateway) -> None:
    async with joining(gateway, client_rack="r1") as consumer:
        await stream_of(gateway)
        gateway.heartbeat_errors = [ErrorCode.FENCED_MEMBER_EPOCH]

        def joins() -> list[ShareGroupHeartbeatRequest]:
            return [heartbeat for heartbeat in gateway.heartbeats if heartbeat.member_epoch == 0]

        await eventually(lambda: len(joins()) == 2)
        assert {join.member_id for join in joins()} == {consumer.member_id}
        assert [join.rack_id for join in joins()] == ["r1", "r1"]


class Listener:
    def __init__(self) -> None:
        self.calls: list[tuple[str, frozenset[TopicPartition]]] = []

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.calls.append(("revoked", partitions))

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.calls.append(("assigned", partitions))

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self.calls.append(("lost", partitions))


def parts(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("flights", n) for n in numbers)


async def test_listener_runs_within_polls_only(gateway: FakeGateway) -> None:
    listener = Listener()
    gateway.partitions = [0, 1]

    async def called(number: int) -> None:
        async def polled() -> bool:
            await consumer.poll(0.01)
            return len(listener.calls) == number

        await eventually(polled)

    async with joining(gateway, listener=listener) as consumer:
        await eventually(lambda: len(gateway.heartbeats) > 2)
        assert listener.calls == []
        assert gateway.stream.assignment == []
        await called(1)
        await eventually(lambda: gateway.stream.assignment == [0, 1])
        gateway.partitions = [1, 2]
        await called(3)
        await eventually(lambda: gateway.stream.assignment == [1, 2])
        gateway.heartbeat_errors = [ErrorCode.UNKNOWN_MEMBER_ID]
        await called(5)
    assert listener.calls == [
        ("assigned", parts(0, 1)),
        ("revoked", parts(0)),
        ("assigned", parts(2)),
        ("lost", parts(1, 2)),
        ("assigned", parts(1, 2)),
        ("revoked", parts(1, 2)),  # by closing
    ]


async def test_raising_listener_does_not_block_membership(
    gateway: FakeGateway,
) -> None:
    class Angry(Listener):
        def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            super().on_partitions_assigned(partitions)
            raise ArithmeticError("mine")

    async with joining(gateway, listener=Angry()) as consumer:
        with pytest.raises(ArithmeticError, match="mine"):
            await consumer.poll(5)
        await eventually(lambda: gateway.stream.assignment == [0])


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
            while sum(map(len, polls)) < 4:  # how many polls it takes depends on when the batches arrive
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
    """The offsets whose renewal was requested for."""
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
