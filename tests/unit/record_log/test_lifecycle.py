"""Loading of a log, and restoring of batches that the store lost."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.record_log.appends import Appended
from sharebroker_server.record_log.core.log_state import MemoryLimits
from sharebroker_server.record_log.lifecycle import (
    RETRY_AFTER,
    TRANSITIONS,
    LogPhase,
    storage_error,
    unavailable,
)
from sharebroker_server.record_log.record_validation import LogSettings
from sharebroker_server.stream_log.port import LogUnavailable
from tests.testkit.memory.stream_log import Fault
from tests.unit.record_log.batches import batch, identified, stored
from tests.unit.record_log.harness import NAME, NOW, SIZE, Harness, code_of, offsets, until_open


def test_every_phase_has_transitions_and_closed_is_final() -> None:
    assert set(TRANSITIONS) == set(LogPhase)
    assert not TRANSITIONS[LogPhase.CLOSED]


@pytest.mark.parametrize(
    ("phase", "code"),
    [
        (LogPhase.RECOVERING, ErrorCode.KAFKA_STORAGE_ERROR),
        (LogPhase.CLOSED, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_error_names_the_reason_of_the_phase(phase: LogPhase, code: ErrorCode) -> None:
    assert unavailable("partition:T:0", phase).code is code


def test_storage_error_can_be_retried() -> None:
    error = storage_error("full")
    assert error.retriable
    assert error.retry_after == RETRY_AFTER


async def test_batches_lost_by_the_store_are_restored_from_memory(harness: Harness) -> None:
    log = await harness.open(LogSettings(limits=MemoryLimits(hot_cache_bytes=2 * SIZE)))
    for _ in range(3):
        await log.append(batch(3))
    await harness.store.delete(NAME)
    harness.store.fail_next_append(Fault.LOST_UNKNOWN)
    assert await code_of(log.append(batch())) is ErrorCode.REQUEST_TIMED_OUT
    await until_open(log)
    assert offsets(await harness.store.read(NAME, 0, 10**6)) == [(3, 5), (6, 8)]
    assert await log.append(batch(2)) == Appended(9, 10, -1)
    assert offsets(await log.read(0, 10**6)) == [(3, 5), (6, 8), (9, 10)]


async def test_idle_log_detects_lost_batches(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch(3))
    await log.recheck()
    assert (log.phase, log.epoch) == (LogPhase.OPEN, 1)
    await harness.store.delete(NAME)
    harness.store.away = True
    with pytest.raises(LogUnavailable):
        await log.recheck()
    harness.store.away = False
    await log.recheck()
    assert await code_of(log.append(batch())) is ErrorCode.KAFKA_STORAGE_ERROR
    await until_open(log)
    assert offsets(await harness.store.read(NAME, 0, 10**6)) == [(0, 2)]


async def test_rewritten_record_may_or_may_not_be_durable(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch(3))
    await harness.store.delete(NAME)
    for fault in (Fault.LOST_UNKNOWN, Fault.NOT_WRITTEN, Fault.DONE_UNKNOWN):
        harness.store.fail_next_append(fault)
    await log.recheck()
    await until_open(log)
    assert offsets(await harness.store.read(NAME, 0, 10**6)) == [(0, 2)]
    assert harness.lease.reclaims == 3  # before each write that a delayed one may overtake


async def test_restore_includes_producer_snapshots(harness: Harness) -> None:
    log = await harness.open()
    sent = batch(3, producer=(7, 0, 0))
    await log.append(sent)
    await harness.store.delete(NAME)
    await log.recheck()
    await until_open(log)
    again = await harness.open()
    assert await again.append(sent) == Appended(0, 2, -1)  # recognised, not appended
    assert again.log_end_offset == 3


async def test_restore_includes_a_snapshot_that_was_lost_alone(harness: Harness) -> None:
    settings = LogSettings(dedup_window_ms=60_000)
    log = await harness.open(settings)
    now_ms = int(NOW * 1000)
    await log.append(identified("a", time=now_ms, producer=(7, 0, 0)))
    before = await harness.store.snapshots(NAME)
    await log.append(
        identified("a", time=now_ms, producer=(7, 0, 1))
    )  # a duplicate: only its sequence counts
    await harness.store.append(NAME, log.epoch, (), (), before)  # the fail-over of a store loses that
    harness.store.fail_next_append(Fault.LOST_UNKNOWN)
    assert await code_of(log.append(batch())) is ErrorCode.REQUEST_TIMED_OUT
    await until_open(log)
    successor = await harness.open(settings)
    assert await successor.append(identified("b", time=now_ms, producer=(7, 0, 2))) == Appended(1, 1, -1)


async def test_restore_keeps_a_later_snapshot_of_the_store(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch(producer=(7, 0, 0)))
    harness.store.fail_next_append(Fault.DONE_UNKNOWN)
    sent = batch(producer=(7, 0, 3))
    assert await code_of(log.append(sent)) is ErrorCode.REQUEST_TIMED_OUT
    await until_open(log)
    assert await log.append(sent) == Appended(3, 5, -1)
    assert log.log_end_offset == 6


async def test_reopened_log_continues_at_its_end(harness: Harness) -> None:
    settings = LogSettings(limits=MemoryLimits(hot_cache_bytes=2 * SIZE, segment_bytes=2 * SIZE))
    log = await harness.open(settings)
    for _ in range(5):
        await log.append(batch(3))
    await log.delete_records(4)
    again = await harness.open(settings)
    assert (again.log_start_offset, again.log_end_offset) == (4, 15)
    assert again._state.index.segments() == log._state.index.segments()
    assert offsets(again.read_hot(12, 10**6)) == [(12, 14)]
    assert offsets(await again.read(4, 10**6)) == offsets(await log.read(4, 10**6))


async def test_unavailable_store_fails_to_open(harness: Harness) -> None:
    harness.store.away = True
    assert await code_of(harness.open()) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_producer_snapshot_of_a_later_version_fails_to_open(harness: Harness) -> None:
    log = await harness.open()
    await harness.store.append(NAME, log.epoch, [stored(0)], (), {"p7": b"\x09"})
    assert await code_of(harness.open()) is ErrorCode.KAFKA_STORAGE_ERROR
