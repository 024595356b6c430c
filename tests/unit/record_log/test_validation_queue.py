"""Validation in turns: what is validated at once, in which order the rest is, and how it is sliced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import BatchHeader
from sharebroker_server.record_log.record_validation import (
    MAX_BATCHES,
    MAX_RECORDS,
    SLICE_RECORDS,
    LogSettings,
)
from sharebroker_server.record_log.validation_queue import TURN_COST, CallValidation, ValidationQueue
from tests.hostile.payloads import consecutive, one_record, repeated
from tests.unit.record_log.batches import batch

SETTINGS = LogSettings()
NOW = 1_000
SMALL = batch(3)
MANY_RECORDS = TURN_COST + 1
"""So many records are not validated at once."""


@pytest.fixture
def queue() -> ValidationQueue:
    return ValidationQueue()


class Turns:
    """Counts the turns of the event loop in which other tasks could run."""

    def __init__(self) -> None:
        self.count = 0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)

    def stop(self) -> None:
        self._task.cancel()


async def outcome(queue: ValidationQueue, data: bytes) -> list[BatchHeader] | ErrorCode:
    try:
        return await CallValidation(queue).headers(SETTINGS, data, NOW)
    except KafkaError as error:
        return error.code


async def test_a_small_batch_is_validated_at_once(queue: ValidationQueue) -> None:
    turns = Turns()
    assert await outcome(queue, SMALL) == SETTINGS.headers(SMALL, NOW)
    assert turns.count == 0
    turns.stop()


@pytest.mark.slow
async def test_other_tasks_run_between_the_slices_of_a_large_batch(queue: ValidationQueue) -> None:
    turns = Turns()
    assert await outcome(queue, consecutive(MAX_RECORDS)) == SETTINGS.headers(consecutive(MAX_RECORDS), NOW)
    assert turns.count >= MAX_RECORDS // SLICE_RECORDS
    turns.stop()


async def test_small_batches_of_an_append_share_a_slice(queue: ValidationQueue) -> None:
    data = batch(SLICE_RECORDS // 8) * 24
    turns = Turns()
    assert await queue.validate(SETTINGS, data, NOW) == SETTINGS.headers(data, NOW)
    assert turns.count <= 2 * 24 // 6
    turns.stop()


async def test_the_work_at_once_is_limited_per_turn(queue: ValidationQueue) -> None:
    data = batch(1000)
    validated = 0
    while queue.validate_now(SETTINGS, data, NOW) is not None:
        validated += 1
    assert 1 <= validated <= TURN_COST // 1000
    await asyncio.sleep(0)
    assert queue.validate_now(SETTINGS, data, NOW) is not None


async def test_a_batch_that_unpacks_too_large_to_read_at_once_is_queued(queue: ValidationQueue) -> None:
    data = batch(1, 2 << 20, codec=4)
    assert queue.validate_now(SETTINGS, data, NOW) is None
    assert await outcome(queue, data) == SETTINGS.headers(data, NOW)


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (lambda: b"garbage", ErrorCode.CORRUPT_MESSAGE),
        (lambda: repeated(MANY_RECORDS), ErrorCode.INVALID_RECORD),
        (lambda: consecutive(MANY_RECORDS)[:-1] + b"\0", ErrorCode.CORRUPT_MESSAGE),
        (lambda: consecutive(MAX_RECORDS) + SMALL, ErrorCode.MESSAGE_TOO_LARGE),
        (lambda: batch(1) * (MAX_BATCHES + 1), ErrorCode.MESSAGE_TOO_LARGE),
        (lambda: one_record(1_000_000), ErrorCode.MESSAGE_TOO_LARGE),
        (lambda: batch(MANY_RECORDS, time=10**12), ErrorCode.INVALID_TIMESTAMP),
    ],
    ids=["bytes", "offsets", "crc", "records", "batches", "headers", "timestamps"],
)
async def test_a_queued_batch_has_the_same_errors(
    queue: ValidationQueue, payload: Callable[[], bytes], code: ErrorCode
) -> None:
    data = payload()
    assert await outcome(queue, data) is code
    with pytest.raises(KafkaError) as caught:
        SETTINGS.headers(data, NOW)
    assert caught.value.code is code


async def test_batches_with_fewer_records_overtake_larger_ones(queue: ValidationQueue) -> None:
    done: list[int] = []

    async def validate(data: bytes) -> None:
        (header,) = await queue.validate(SETTINGS, data, NOW)
        done.append(header.record_count)

    async with asyncio.TaskGroup() as group:
        for count in (40_000, 30_000, 20_000, MANY_RECORDS):
            group.create_task(validate(consecutive(count)))
    assert done[0] == MANY_RECORDS


async def test_a_call_with_many_batches_does_not_delay_another_call(queue: ValidationQueue) -> None:
    finished: list[str] = []

    async def call(name: str, batches: int) -> None:
        validation = CallValidation(queue)
        async with asyncio.TaskGroup() as group:
            for _ in range(batches):
                group.create_task(validation.headers(SETTINGS, consecutive(MANY_RECORDS), NOW))
        finished.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(call("many", 30))
        group.create_task(call("few", 2))
    assert finished == ["few", "many"]


async def test_the_batches_of_a_call_keep_their_order(queue: ValidationQueue) -> None:
    validation = CallValidation(queue)
    order: list[int] = []

    async def validate(number: int, data: bytes) -> None:
        await validation.headers(SETTINGS, data, NOW)
        order.append(number)

    async with asyncio.TaskGroup() as group:
        for number, data in enumerate((consecutive(MAX_RECORDS), SMALL, consecutive(MANY_RECORDS), SMALL)):
            group.create_task(validate(number, data))
        await asyncio.sleep(0.001)
        group.create_task(validate(4, SMALL))
    assert order == [0, 1, 2, 3, 4]


async def test_a_cancelled_batch_passes_its_turn_on(queue: ValidationQueue) -> None:
    running = asyncio.create_task(outcome(queue, consecutive(MAX_RECORDS)))
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(outcome(queue, consecutive(MANY_RECORDS))) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    running.cancel()
    await asyncio.sleep(0)  # the turn was passed on, its task has not run
    waiting[1].cancel()
    assert await waiting[2] == SETTINGS.headers(consecutive(MANY_RECORDS), NOW)
    assert await outcome(queue, consecutive(MANY_RECORDS)) == SETTINGS.headers(consecutive(MANY_RECORDS), NOW)
