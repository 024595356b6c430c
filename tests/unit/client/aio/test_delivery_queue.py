"""The queue between the background tasks and the application."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker.aio.delivery_queue import DeliveryQueue
from sharebroker.client_errors import WakeupError
from sharebroker.consumer.accumulator import Accumulator
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.records.batches import decode
from sharebroker_protocol.records.record import Record
from tests.unit.client.batches import acquisition, batch

ACCUMULATOR = Accumulator(lambda: None)


def records(first: int, last: int, *, delivery_count: int = 1, token: int = 0) -> list[Record]:
    acquired = acquisition(first, last, ACCUMULATOR)
    acquired.delivery_count = delivery_count
    acquired.token = token
    return decode(batch(first, [b"v"] * (last - first + 1)), [acquired]).records


def offsets(queue: DeliveryQueue, limit: int, *, whole: bool = False) -> list[int]:
    return [record.offset for record in queue.next_turn(limit, whole=whole).records]


def test_limit_splits_acquisitions_unless_whole() -> None:
    queue = DeliveryQueue()
    queue.put_records(records(0, 4))
    assert offsets(queue, 2) == [0, 1]
    assert offsets(queue, 2, whole=True) == [2, 3, 4]
    assert offsets(queue, 2) == []


def test_redelivered_records_are_returned_apart() -> None:
    queue = DeliveryQueue()
    queue.put_records(records(0, 1))
    queue.put_records(records(2, 3, delivery_count=2, token=1))
    queue.put_records(records(4, 5, delivery_count=2, token=2))
    assert [offsets(queue, 10) for _ in range(3)] == [[0, 1], [2, 3], [4, 5]]


def test_callbacks_precede_records_and_errors_follow() -> None:
    queue = DeliveryQueue()
    queue.put_error(KafkaError(ErrorCode.CORRUPT_MESSAGE))
    queue.put_records(records(0, 0))
    queue.put_callback(lambda: None)
    assert len(queue.next_turn(10, whole=True).callbacks) == 1
    assert offsets(queue, 10) == [0]
    with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
        queue.next_turn(10, whole=True)


def test_wakeup_is_raised_once() -> None:
    queue = DeliveryQueue()
    queue.wake_up()
    with pytest.raises(WakeupError):
        queue.next_turn(10, whole=True)
    assert offsets(queue, 10) == []


async def test_wait_ends_with_a_change_or_the_deadline() -> None:
    queue = DeliveryQueue()
    loop = asyncio.get_running_loop()
    assert not await queue.wait(loop.time())
    loop.call_later(0.01, queue.notify)
    assert await queue.wait(loop.time() + 10)


def test_older_records_are_removed() -> None:
    queue = DeliveryQueue()
    early, late = records(0, 1), records(2, 3)
    late[0].acquisition.since = 5.0
    queue.put_records(early)
    queue.put_records(late)
    assert queue.remove_older(3.0) == early
    assert offsets(queue, 10) == [2, 3]
