"""Durable locks outlive their stream: unary calls renew and acknowledge their records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import grpc
import pytest

from sharebroker import AcknowledgeType, ErrorCode, KafkaError, LockLost, Record
from sharebroker.aio import ShareConsumer
from sharebroker.client_errors import ConnectionLostError
from tests.testkit.waiting import eventually
from tests.unit.client.batches import batch
from tests.unit.client.consuming import joining, stream_of, values
from tests.unit.client.fake_gateway import FakeGateway

HOUR = 3_600_000
ACCEPT, RENEW, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RENEW, AcknowledgeType.RELEASE


def _kinds(decisions: Iterable[Any]) -> list[AcknowledgeType]:
    return [AcknowledgeType(one.type) for one in decisions]


def _joining(gateway: FakeGateway, **config: Any) -> ShareConsumer:
    return joining(gateway, lock_ms=HOUR, auto_renew=True, **config)


async def _received(gateway: FakeGateway, consumer: ShareConsumer, count: int = 3) -> list[Record]:
    """Returns records that were delivered on the first stream, which renewed them."""
    stream = await stream_of(gateway)
    assert stream.first.subscribe.durable_locks
    stream.deliver(batch(0, values(count)), 0, count - 1, token=77)
    records = await consumer.poll(5)
    await eventually(lambda: _kinds(stream.all_acknowledgements) == [RENEW])
    return records


async def _break_off(gateway: FakeGateway) -> None:
    gateway.stream.end(grpc.StatusCode.UNAVAILABLE)
    await stream_of(gateway, 2)


async def test_short_locks_end_with_the_stream(gateway: FakeGateway) -> None:
    async with joining(gateway, lock_ms=59_999) as consumer:
        stream = await stream_of(gateway)
        assert not stream.first.subscribe.durable_locks
        stream.deliver(batch(0, values(1)), 0, 0)
        (record,) = await consumer.poll(5)
        await _break_off(gateway)
        await eventually(lambda: record.lock_lost)
        assert not gateway.decisions


async def test_records_are_renewed_and_acknowledged_after_their_stream(gateway: FakeGateway) -> None:
    lost: list[LockLost] = []
    async with _joining(gateway, lock_lost_callback=lost.append) as consumer:
        records = await _received(gateway, consumer)
        await _break_off(gateway)
        await eventually(lambda: gateway.decisions)
        (renewal,) = gateway.decisions
        assert _kinds([renewal]) == [RENEW]
        assert (renewal.offset, renewal.last_offset) == (0, 2)
        assert (renewal.lock_ms, renewal.lock_token, renewal.topic) == (HOUR, 77, "flights")
        await records[0].accept()
        await records[1].release(1.5, blameless=True, reason="busy")
        await records[2].reject("bad")
        sent = [(one.offset, one.delay_ms, one.reason) for one in gateway.decisions[1:]]
        assert sent == [(0, 0, ""), (1, 1500, "busy"), (2, 0, "bad")]
        assert _kinds(gateway.decisions) == [RENEW, ACCEPT, RELEASE, AcknowledgeType.REJECT]
        assert [one.blameless for one in gateway.decisions[1:]] == [False, True, False]
        assert not any(record.lock_lost for record in records)
        assert lost == gateway.stream.all_acknowledgements == []


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.INVALID_RECORD_STATE])
async def test_an_acknowledgement_without_a_result_is_sent_again(
    gateway: FakeGateway, error: ErrorCode
) -> None:
    async with _joining(gateway) as consumer:
        (record,) = await _received(gateway, consumer, 1)
        gateway.auto_answer = False
        accepted = record.accept()
        await eventually(lambda: gateway.stream.all_acknowledgements[-1].type == ACCEPT)
        gateway.acknowledge_errors = [error]
        await _break_off(gateway)
        if error:
            with pytest.raises(ConnectionLostError, match="may have been applied before"):
                await accepted
        else:
            await accepted
        assert _kinds(gateway.decisions) == [ACCEPT]


async def test_an_acknowledgement_whose_leader_changed_is_sent_again(gateway: FakeGateway) -> None:
    async with _joining(gateway) as consumer:
        (record,) = await _received(gateway, consumer, 1)
        gateway.auto_answer = False
        accepted = record.accept()
        stream = gateway.stream
        await eventually(lambda: stream.all_acknowledgements[-1].type == ACCEPT)
        stream.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await accepted
        assert _kinds(gateway.decisions) == [ACCEPT]
        assert gateway.decisions[0].lock_token == 77


async def test_calls_are_repeated_after_retriable_errors(gateway: FakeGateway) -> None:
    async with _joining(gateway) as consumer:
        (record,) = await _received(gateway, consumer, 1)
        gateway.acknowledge_errors = [
            KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE),
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ]
        await _break_off(gateway)
        await eventually(lambda: len(gateway.decisions) == 3)
        await record.accept()
        assert _kinds(gateway.decisions) == [RENEW, RENEW, RENEW, ACCEPT]


async def test_a_refused_renewal_reports_the_lost_lock(gateway: FakeGateway) -> None:
    lost: list[LockLost] = []
    async with _joining(gateway, lock_lost_callback=lost.append) as consumer:
        records = await _received(gateway, consumer)
        gateway.acknowledge_errors = [ErrorCode.INVALID_RECORD_STATE] * 3
        await _break_off(gateway)
        await eventually(lambda: all(record.lock_lost for record in records))
        await consumer.poll(0)
        assert sorted(one.offset for one in lost) == [0, 1, 2]


async def test_a_rejected_range_is_divided(gateway: FakeGateway) -> None:
    lost: list[LockLost] = []
    async with _joining(gateway, lock_lost_callback=lost.append) as consumer:
        records = await _received(gateway, consumer)
        gateway.lost_offsets = {1}
        await _break_off(gateway)
        await eventually(lambda: records[1].lock_lost)
        accepts = [records[0].accept(), records[2].accept()]
        await asyncio.gather(*accepts)
        await consumer.poll(0)
        assert [one.offset for one in lost] == [1]


async def test_an_unavailable_partition_does_not_delay_the_others(gateway: FakeGateway) -> None:
    async with _joining(gateway) as consumer:
        records = await _received(gateway, consumer)
        await _break_off(gateway)
        await eventually(lambda: gateway.decisions)
        gateway.unavailable_offsets = {0}
        waiting = records[0].release()
        await records[1].accept()
        assert not waiting.done
        gateway.unavailable_offsets.clear()
        await waiting


async def test_an_error_of_one_acknowledgement_does_not_fail_the_others(gateway: FakeGateway) -> None:
    async with _joining(gateway) as consumer:
        records = await _received(gateway, consumer)
        await _break_off(gateway)
        await eventually(lambda: gateway.decisions)
        gateway.acknowledge_errors = [
            KafkaError(ErrorCode.INVALID_REQUEST),
            KafkaError(ErrorCode.INVALID_REQUEST),
        ]
        refused, accepted = records[0].reject("no"), records[1].accept()
        await accepted
        with pytest.raises(KafkaError):
            await refused


async def test_records_in_hand_count_against_the_credit(gateway: FakeGateway) -> None:
    async with _joining(gateway, max_poll_records=5, prefetch_records=0) as consumer:
        records = await _received(gateway, consumer)
        await _break_off(gateway)
        await eventually(lambda: gateway.decisions)
        await records[0].accept()
        await asyncio.gather(*(record.renew() for record in records[1:]))
        assert [record.offset for record in await consumer.poll(5)] == [1, 2]
        assert gateway.stream.credit <= 3


async def test_closing_releases_records_in_hand(gateway: FakeGateway) -> None:
    async with _joining(gateway) as consumer:
        await _received(gateway, consumer)
        await _break_off(gateway)
        await eventually(lambda: gateway.decisions)
    last = gateway.decisions[-1]
    assert _kinds([last]) == [RELEASE]
    assert (last.offset, last.last_offset) == (0, 2)
