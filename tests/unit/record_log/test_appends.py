"""Group commit: waiting appends are written in one request."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.appends import Appended
from sharebroker_server.record_log.core.producers import Marker, Verified
from sharebroker_server.record_log.record_validation import LogSettings
from tests.testkit.memory.stream_log import Fault
from tests.unit.record_log.batches import batch
from tests.unit.record_log.harness import NAME, SIZE, Harness, code_of, error_of, settled


async def test_appends_during_a_write_form_the_next_group(harness: Harness) -> None:
    log = await harness.open()
    harness.store.hold()
    responses = [asyncio.ensure_future(log.append(batch(2)))]
    await settled()
    responses += [asyncio.ensure_future(log.append(batch(2))) for _ in range(5)]
    await settled()
    assert log.log_end_offset == 0
    harness.store.release()
    assert [a.base_offset for a in await asyncio.gather(*responses)] == [0, 2, 4, 6, 8, 10]
    assert harness.store.appends == [(NAME, 1), (NAME, 5)]


async def test_several_batches_of_a_producer_are_repeated_as_a_whole(harness: Harness) -> None:
    log = await harness.open()
    first = batch(3, producer=(7, 0, 0)) + batch(2, producer=(7, 0, 3))
    second = batch(4, producer=(7, 0, 5)) + batch(1, producer=(7, 0, 9))
    appended = [await log.append(data) for data in (first, second, first, second)]
    assert [(a.base_offset, a.last_offset) for a in appended] == [(0, 4), (5, 9)] * 2
    assert log.log_end_offset == 10
    assert await code_of(log.append(batch(4, producer=(7, 0, 5)))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_group_is_bounded(harness: Harness) -> None:
    log = await harness.open(LogSettings(max_group_bytes=2 * SIZE))
    await asyncio.gather(*(log.append(batch()) for _ in range(5)))
    assert harness.store.appends == [(NAME, 2), (NAME, 2), (NAME, 1)]


async def test_full_append_queue_is_throttled(harness: Harness) -> None:
    log = await harness.open(LogSettings(max_pending_bytes=2 * SIZE))
    harness.store.hold()
    first = asyncio.ensure_future(log.append(batch()))
    await settled()
    waiting = [asyncio.ensure_future(log.append(batch())) for _ in range(2)]
    await settled()
    error = await error_of(log.append(batch()))
    assert error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert error.retriable
    assert error.retry_after is not None
    harness.store.release()
    assert [a.base_offset for a in await asyncio.gather(first, *waiting)] == [0, 3, 6]


async def test_large_append_is_accepted_by_an_empty_queue(harness: Harness) -> None:
    log = await harness.open(LogSettings(max_pending_bytes=1))
    assert (await log.append(batch())).base_offset == 0


async def test_full_store_rejects_records_and_names_remedies(harness: Harness) -> None:
    log = await harness.open()
    harness.store.full = True
    error = await error_of(log.append(batch()))
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert error.retriable
    assert "--max-memory" in error.message
    assert (error.retry_after or 0) >= 1.0
    harness.store.full = False
    assert (await log.append(batch())).base_offset == 0


async def test_full_store_accepts_markers_also_among_records(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch(3, producer=(7, 0, 0), transactional=True), Verified(0, renews_epoch=False))
    harness.store.full = True
    assert await code_of(log.append(batch())) is ErrorCode.KAFKA_STORAGE_ERROR
    harness.store.hold()
    first = asyncio.ensure_future(log.append(batch()))
    await settled()
    around = asyncio.ensure_future(log.append(batch()))
    marker = asyncio.ensure_future(log.end_transaction(Marker(7, 0, 1, commit=True)))
    after = asyncio.ensure_future(log.append(batch()))
    await settled()
    harness.store.release()
    assert await marker == Appended(3, 3, -1)
    assert [await code_of(each) for each in (first, around, after)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    assert log.last_stable_offset == 4
    harness.store.full = False
    assert (await log.append(batch())).base_offset == 4


async def test_a_store_with_room_groups_markers_with_records_again(harness: Harness) -> None:
    log = await harness.open()
    harness.store.full = True
    assert await code_of(log.append(batch())) is ErrorCode.KAFKA_STORAGE_ERROR
    harness.store.full = False
    harness.store.hold()
    answers = [asyncio.ensure_future(log.append(batch()))]
    await settled()
    answers.append(asyncio.ensure_future(log.append(batch())))
    answers.append(asyncio.ensure_future(log.end_transaction(Marker(7, 0, 1, commit=True))))
    await settled()
    harness.store.release()
    await asyncio.gather(*answers)
    assert harness.store.appends == [(NAME, 1), (NAME, 2)]


async def test_rejected_records_are_freed_at_once(harness: Harness) -> None:
    """Cycles of errors and frames would keep them until a collection: gigabytes while the store is full."""
    log = await harness.open()
    harness.store.full = True
    data = kept = memoryview(batch())
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(KafkaError):
            await log.append(data)
        del data
        await settled()
        assert sys.getrefcount(kept) == 2
    finally:
        gc.enable()


async def test_cancelled_caller_does_not_cancel_the_append(harness: Harness) -> None:
    log = await harness.open()
    harness.store.hold()
    impatient, patient = (asyncio.ensure_future(log.append(batch())) for _ in range(2))
    await settled()
    impatient.cancel()
    harness.store.release()
    assert (await patient).base_offset == 3
    assert log.log_end_offset == 6


async def test_cancelled_caller_gets_no_failure(harness: Harness) -> None:
    log = await harness.open()
    harness.store.hold()
    harness.store.fail_next_append(Fault.NOT_WRITTEN)
    impatient, patient = (asyncio.ensure_future(log.append(batch())) for _ in range(2))
    await settled()
    impatient.cancel()
    harness.store.release()
    assert await code_of(patient) is ErrorCode.KAFKA_STORAGE_ERROR
    assert impatient.cancelled()


async def test_failed_group_does_not_change_sequences(harness: Harness) -> None:
    log = await harness.open()
    harness.store.fail_next_append(Fault.NOT_WRITTEN)
    assert await code_of(log.append(batch(3, producer=(7, 0, 0)))) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.transactions.producers == {}
    assert await log.append(batch(3, producer=(7, 0, 0))) == Appended(0, 2, -1)
