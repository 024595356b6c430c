"""Records with message ids in a partition's log: duplicates, fail-over, transactions, retention, bad ids."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.records.record import MAX_MESSAGE_ID_BYTES
from sharebroker_server.record_log.appends import MAX_REPEATED_RANGES, Appended
from sharebroker_server.record_log.core.log_state import MemoryLimits
from sharebroker_server.record_log.core.producers import Marker, Verified
from sharebroker_server.record_log.core.retention import Retention
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.record_log.record_headers import RecordHeaders
from sharebroker_server.record_log.record_validation import LogSettings
from sharebroker_server.record_log.validation_queue import CallValidation, ValidationQueue
from tests.testkit.memory.stream_log import Fault
from tests.unit.record_log.batches import batch, identified
from tests.unit.record_log.harness import NOW, Harness, code_of, error_of, until_open

WINDOW = LogSettings(dedup_window_ms=60_000)
MS = int(NOW * 1000)
CODECS = range(5)


def skipped(log: PartitionLog) -> list[tuple[int, int]]:
    return list(log.transactions.duplicates_in(log.log_start_offset, log.log_end_offset))


def verified(log: PartitionLog) -> Verified:
    return Verified(log.log_end_offset, renews_epoch=False)


@pytest.mark.parametrize("codec", CODECS)
async def test_a_repeated_batch_has_the_first_offsets_also_after_a_failover(
    harness: Harness, codec: int
) -> None:
    log = await harness.open(WINDOW)
    await log.append(batch(2, time=MS))
    data = identified("abc", time=MS, codec=codec)
    assert await log.append(data) == Appended(2, 4, -1)
    for _ in range(2):
        assert await log.append(data) == Appended(2, 4, -1)
        assert await log.append(identified("b", time=MS)) == Appended(3, 3, -1)
        assert log.log_end_offset == 5
        log = await harness.open(WINDOW)
    assert not skipped(log)


async def test_two_batches_of_one_append_are_one_repetition(harness: Harness) -> None:
    log = await harness.open(WINDOW)
    data = identified("ab", time=MS) + identified("c", time=MS)
    assert await log.append(data) == await log.append(data) == Appended(0, 2, -1)


async def test_duplicates_in_any_order_have_their_first_offsets(harness: Harness) -> None:
    log = await harness.open(WINDOW)
    await log.append(identified("abcd", time=MS))
    for _ in range(2):
        for ids, offsets in (("ba", (1, 0)), ("aa", (0, 0)), ("dab", (3, 0, 1))):
            appended = await log.append(identified(ids, time=MS), duplicate_offsets=True)
            assert appended == Appended(min(offsets), max(offsets), -1, offsets)
            assert [appended.offset_of(place) for place in range(len(ids))] == [*offsets]
        consecutive = await log.append(identified("bc", time=MS), duplicate_offsets=True)
        assert consecutive == Appended(1, 2, -1)
        log = await harness.open(WINDOW)
    assert (log.log_end_offset, skipped(log)) == (4, [])


async def test_duplicates_in_another_order_are_appended_beside_a_new_record(harness: Harness) -> None:
    log = await harness.open(WINDOW)
    await log.append(identified("ab", time=MS))
    for ids in (["b", "a", "x"], ["b", "a", None]):
        before = log.log_end_offset
        appended = await log.append(identified(ids, time=MS), duplicate_offsets=True)
        assert appended == Appended(before, before + 2, -1)
    assert skipped(log) == [(2, 3), (5, 6)]


async def test_duplicates_in_another_order_of_an_idempotent_producer_are_appended(harness: Harness) -> None:
    """Its response has one base offset, and its next batch continues the sequence numbers."""
    log = await harness.open(WINDOW)
    await log.append(identified("ab", time=MS, producer=(7, 0, 0)))
    again = identified("ba", time=MS, producer=(7, 0, 2))
    assert await log.append(again, duplicate_offsets=True) == Appended(2, 3, -1)
    assert skipped(log) == [(2, 3)]


async def test_expired_duplicates_in_another_order_are_appended(harness: Harness) -> None:
    log = await harness.open(WINDOW)
    await log.append(identified("ab", time=MS))
    harness.now += 60
    assert await log.append(identified("ba", time=MS), duplicate_offsets=True) == Appended(2, 3, -1)
    assert skipped(log) == []


async def test_a_batch_with_a_new_record_is_appended_and_its_duplicates_are_marked(harness: Harness) -> None:
    log = await harness.open(WINDOW)
    await log.append(identified("ab", time=MS))
    assert await log.append(identified(["x", "a", "b", None, "b"], time=MS)) == Appended(2, 6, -1)
    assert skipped(log) == [(3, 4), (6, 6)]
    assert skipped(await harness.open(WINDOW)) == [(3, 4), (6, 6)]
    assert log.transactions.aborted == []
    await log.delete_records(5)
    assert skipped(log) == skipped(await harness.open(WINDOW)) == [(6, 6)]


async def test_repeated_ids_in_a_new_batch_are_marked(harness: Harness) -> None:
    log = await harness.open(WINDOW)
    await log.append(identified("aba", time=MS))
    assert skipped(log) == [(2, 2)]
    assert await log.append(identified("a", time=MS)) == Appended(0, 0, -1)


async def test_the_window_ends_for_the_leader_and_its_successor(harness: Harness) -> None:
    log = await harness.open(WINDOW)
    await log.append(identified("a", time=MS))
    harness.now += 59.9
    assert (await log.append(identified("a", time=MS))).base_offset == 0
    assert (await (await harness.open(WINDOW)).append(identified("a", time=MS))).base_offset == 0
    harness.now += 0.1
    successor = await harness.open(WINDOW)
    assert (await successor.append(identified("a", time=MS))).base_offset == 1


async def test_message_ids_have_no_effect_without_a_window(harness: Harness) -> None:
    log = await harness.open()
    await log.append(identified(["a", b"", bytes(1000)], time=MS))
    assert await log.append(identified("a", time=MS)) == Appended(3, 3, -1)
    log.settings = WINDOW
    await log.append(identified("a", time=MS))
    assert await log.append(identified("a", time=MS)) == Appended(4, 4, -1)
    log.settings = LogSettings()
    assert await log.append(identified("a", time=MS)) == Appended(5, 5, -1)
    log.settings = WINDOW
    assert await log.append(identified("a", time=MS)) == Appended(6, 6, -1)
    assert (await (await harness.open(WINDOW)).append(identified("a", time=MS))).base_offset == 6


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, MAX_MESSAGE_ID_BYTES + 1])
async def test_ids_of_an_invalid_length_are_rejected(harness: Harness, size: int, codec: int) -> None:
    log = await harness.open(WINDOW)
    await log.append(identified([bytes(MAX_MESSAGE_ID_BYTES)], time=MS, codec=codec))
    error = await error_of(log.append(identified(["a", bytes(size)], time=MS, codec=codec)))
    assert error.code is ErrorCode.INVALID_RECORD
    assert (
        error.message
        == f"The message id of record 1 has {size} bytes; 1 to {MAX_MESSAGE_ID_BYTES} are allowed."
    )
    assert log.log_end_offset == 1


async def test_many_separate_duplicates_are_rejected(harness: Harness) -> None:
    log = await harness.open(WINDOW)
    await log.append(identified("a", time=MS))
    data = identified(["a", None] * MAX_REPEATED_RANGES, time=MS)
    await log.append(data)
    too_many = identified(["a", None] * (MAX_REPEATED_RANGES + 1), time=MS)
    assert await code_of(log.append(too_many)) is ErrorCode.RECORD_LIST_TOO_LARGE


async def test_limit_of_separate_duplicates_does_not_apply_to_a_batch_sent_again(harness: Harness) -> None:
    log = await harness.open(WINDOW)
    ids = [text for number in range(MAX_REPEATED_RANGES + 1) for text in (str(number), None)]
    data = identified(ids, time=MS, producer=(7, 0, 0))
    assert await log.append(data) == await log.append(data) == Appended(0, len(ids) - 1, -1)


async def test_with_log_append_time_a_duplicate_has_the_first_time(harness: Harness) -> None:
    log = await harness.open(replace(WINDOW, log_append_time=True))
    first = await log.append(identified("a", time=1))
    harness.now += 5
    assert await log.append(identified("a", time=2)) == first == Appended(0, 0, MS)
    log = await harness.open(replace(WINDOW, log_append_time=True))
    assert await log.append(identified("a", time=2)) == first


async def test_sequences_of_duplicates_count_also_after_a_failover(harness: Harness) -> None:
    log = await harness.open(WINDOW)
    await log.append(identified("ab", time=MS))
    assert await log.append(identified("ab", time=MS, producer=(7, 0, 0))) == Appended(0, 1, -1)
    successor = await harness.open(WINDOW)
    assert await successor.append(identified("c", time=MS, producer=(7, 0, 2))) == Appended(2, 2, -1)
    # A repeated request has the same response.
    assert await successor.append(identified("ab", time=MS, producer=(7, 0, 0))) == Appended(0, 1, -1)
    assert await code_of(successor.append(identified("ab", time=MS, producer=(7, 0, 9)))) is (
        ErrorCode.KAFKA_STORAGE_ERROR
    )
    assert successor.log_end_offset == 3


@pytest.mark.parametrize("failover", [False, True])
async def test_an_aborted_record_makes_no_later_one_a_duplicate(harness: Harness, failover: bool) -> None:
    log = await harness.open(WINDOW)
    await log.append(identified("ab", time=MS, producer=(7, 0, 0), transactional=True), verified(log))
    await log.append(identified("a", time=MS))
    await log.end_transaction(Marker(7, 0, 1, commit=False))
    log = await harness.open(WINDOW) if failover else log
    assert (await log.append(identified("b", time=MS))).base_offset == 4
    assert (await log.append(identified("a", time=MS))).base_offset == 2
    assert not skipped(log)


@pytest.mark.parametrize("failover", [False, True])
async def test_a_committed_record_makes_later_ones_duplicates(harness: Harness, failover: bool) -> None:
    log = await harness.open(WINDOW)
    await log.append(identified("ab", time=MS, producer=(7, 0, 0), transactional=True), verified(log))
    log = await harness.open(WINDOW) if failover else log
    await log.append(identified("b", time=MS, producer=(7, 0, 2), transactional=True))
    await log.end_transaction(Marker(7, 0, 1, commit=True))
    log = await harness.open(WINDOW) if failover else log
    assert await log.append(identified("ab", time=MS)) == Appended(0, 1, -1)
    # A transaction appends its records in any case.
    again = identified("ab", time=MS, producer=(7, 0, 3), transactional=True)
    assert await log.append(again, verified(log)) == Appended(4, 5, -1)
    assert skipped(log) == [(2, 2), (4, 5)]
    assert log.last_stable_offset == 4


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.FENCED])
async def test_a_failed_append_makes_its_repetition_no_duplicate_unless_written(
    harness: Harness, fault: Fault
) -> None:
    log = await harness.open(WINDOW)
    harness.store.fail_next_append(fault)
    data = identified("a", time=MS)
    assert await code_of(log.append(data)) in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR)
    await until_open(log)
    assert await log.append(data) == Appended(0, 0, -1)
    assert log.log_end_offset == 1
    assert not skipped(log)


async def test_appends_of_one_group_are_compared(harness: Harness) -> None:
    log = await harness.open(WINDOW)
    data = identified("ab", time=MS)
    results = await asyncio.gather(*(log.append(data) for _ in range(5)))
    assert set(results) == {Appended(0, 1, -1)}


async def test_consumed_records_of_the_window_stay(harness: Harness) -> None:
    size = len(identified("a", time=MS))
    limits = MemoryLimits(hot_cache_bytes=size, segment_bytes=size)
    retention = Retention(-1, -1, consumed=True, keep_ms=60_000)
    settings = replace(WINDOW, retention=retention, limits=limits)
    log = await harness.open(settings)
    await log.append(identified("a", time=MS))
    harness.now += 30
    await log.append(identified("b", time=MS + 30_000))
    assert await log.apply_retention(harness.now, 2) == 0
    harness.now += 31
    assert await log.apply_retention(harness.now, 2) == 1
    log = await harness.open(settings)
    assert (await log.append(identified("b", time=MS))).base_offset == 1


async def test_ids_are_found_in_batches_that_are_validated_in_slices() -> None:
    ids = [str(number) for number in range(9_000)]
    found = RecordHeaders(ids=True)
    found.ids = [1, 2, 3]
    data = identified(["x"], time=MS) + identified(ids, time=MS, codec=1) + batch(2, time=MS)
    await CallValidation(ValidationQueue()).headers(WINDOW, data, MS, found)
    assert found.ids == [hash(b"x"), *(hash(each.encode()) for each in ids), None, None]
