"""Records with delivery times in a partition's log: appends, fail-over, limits, retention, producers."""

from __future__ import annotations

from unittest.mock import AsyncMock

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.record_log import partition_log
from sharebroker_server.record_log.appends import Appended
from sharebroker_server.record_log.core import schedules
from sharebroker_server.record_log.core.producers import Marker
from sharebroker_server.record_log.core.retention import Retention
from sharebroker_server.record_log.core.schedules import DeliveryLimits, Scheduled
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.record_log.record_validation import LogSettings
from sharebroker_server.stream_log.port import LogUnavailable
from tests.testkit.memory.stream_log import Fault
from tests.unit.record_log.batches import batch, identified, scheduled
from tests.unit.record_log.harness import NAME, NOW, Harness, code_of, error_of, until_open

MS = int(NOW * 1000)
DAY = 86_400_000
ENABLED = LogSettings(delivery=DeliveryLimits(DAY, -1))
SOON, LATER = MS + 1000, MS + 2000


def found(log: PartitionLog) -> list[Scheduled]:
    return log.transactions.schedules.ranges


@pytest.mark.parametrize("codec", range(5))
async def test_the_times_of_a_batch_are_known_also_after_a_failover(harness: Harness, codec: int) -> None:
    log = await harness.open(ENABLED)
    await log.append(batch(2, time=MS))
    data = scheduled([None, SOON, SOON, LATER, MS - DAY], time=MS, codec=codec)
    assert await log.append(data) == Appended(2, 6, -1)
    for _ in range(2):
        assert found(log) == [(3, 4, SOON), (5, 5, LATER)]
        log = await harness.open(ENABLED)
    (stored,) = await log.read(2, 1)
    assert bytes(stored.data[61:]) == data[61:]


async def test_without_the_topic_config_times_are_ignored(harness: Harness) -> None:
    log = await harness.open()
    await log.append(scheduled([SOON, "bad", SOON + 9 * DAY], time=MS))
    assert not found(log)


async def test_times_stay_when_the_topic_config_is_removed(harness: Harness) -> None:
    log = await harness.open(ENABLED)
    await log.append(scheduled([SOON], time=MS))
    log.settings = LogSettings()
    await log.append(scheduled([SOON], time=MS))
    log = await harness.open()
    assert found(log) == [(0, 0, SOON)]


@pytest.mark.parametrize(
    ("times", "code"),
    [
        pytest.param([None, "soon"], ErrorCode.INVALID_RECORD, id="malformed"),
        pytest.param([SOON, MS + DAY + 1], ErrorCode.INVALID_TIMESTAMP, id="too far away"),
    ],
)
async def test_a_bad_time_rejects_the_append(
    harness: Harness, times: list[int | str | None], code: ErrorCode
) -> None:
    log = await harness.open(ENABLED)
    assert await code_of(log.append(batch(1, time=MS) + scheduled(times, time=MS, codec=1))) is code
    assert (log.log_end_offset, found(log)) == (0, [])


@pytest.mark.patches
async def test_a_full_partition_accepts_a_record_when_a_time_has_passed(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "MAX_SCHEDULED", 2)
    log = await harness.open(ENABLED)
    await log.append(scheduled([SOON, LATER], time=MS))
    for pieces in ([LATER], [LATER + 1], [SOON, None]):
        error = await error_of(log.append(scheduled(pieces, time=MS)))
        assert (error.code, error.retry_after) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 1.0)
    assert await code_of(log.append(scheduled([1 + SOON, SOON, LATER], time=MS))) is (
        ErrorCode.RECORD_LIST_TOO_LARGE
    )
    await log.append(batch(1, time=MS))
    harness.now += 1
    assert (await log.append(scheduled([LATER], time=MS))).base_offset == 3


@pytest.mark.patches
async def test_a_rejected_batch_of_an_idempotent_producer_can_be_sent_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "MAX_SCHEDULED", 1)
    log = await harness.open(ENABLED)
    first = scheduled([SOON], time=MS, producer=(7, 0, 0))
    second = scheduled([LATER], time=MS, producer=(7, 0, 1))
    assert await log.append(first) == await log.append(first) == Appended(0, 0, -1)
    assert await code_of(log.append(second)) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    harness.now += 1
    assert await log.append(second) == await log.append(second) == Appended(1, 1, -1)
    assert found(log) == [(0, 0, SOON), (1, 1, LATER)]


async def test_a_failed_append_leaves_no_time(harness: Harness) -> None:
    log = await harness.open(ENABLED)
    harness.store.fail_next_append(Fault.NOT_WRITTEN)
    assert await code_of(log.append(scheduled([SOON], time=MS))) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not found(log)
    await log.append(scheduled([LATER], time=MS))
    assert found(log) == [(0, 0, LATER)]


async def test_times_of_deleted_records_are_deleted(harness: Harness) -> None:
    log = await harness.open(ENABLED)
    await log.append(scheduled([SOON, SOON, LATER], time=MS))
    await log.append(scheduled([LATER], time=MS))
    await log.delete_records(3)
    assert found(log) == [(3, 3, LATER)]
    assert set(await harness.store.snapshots(NAME)) == {"s3"}


@pytest.mark.patches
async def test_of_the_times_in_the_past_the_newest_are_kept(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "MAX_SCHEDULED", 2)
    log = await harness.open(ENABLED)
    for number in range(4):
        await log.append(scheduled([SOON + number], time=MS))
        harness.now += 2
    assert await log.forget_schedules() == 2
    assert await log.forget_schedules() == 0
    assert set(await harness.store.snapshots(NAME)) == {"s2", "s3"}
    assert found(await harness.open(ENABLED)) == [(2, 2, SOON + 2), (3, 3, SOON + 3)]


@pytest.mark.patches
async def test_the_surplus_of_past_times_is_removed_between_two_appends(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "MAX_SCHEDULED", 2)
    monkeypatch.setattr(partition_log, "MAX_RANGES", 4)
    log = await harness.open(ENABLED)
    for number in range(20):
        await log.append(scheduled([MS - number], time=MS))
        await log.append(batch(1, time=MS))
        assert len(found(log)) <= 4
        assert len(await harness.store.snapshots(NAME)) <= 4


async def test_a_failed_removal_of_past_times_fails_no_append(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "MAX_SCHEDULED", 2)
    monkeypatch.setattr(partition_log, "MAX_RANGES", 4)
    log = await harness.open(ENABLED)
    monkeypatch.setattr(harness.store, "trim", AsyncMock(side_effect=LogUnavailable("down")))
    for number in range(9):
        assert (await log.append(scheduled([MS - number], time=MS))).base_offset == number


async def test_a_duplicate_has_no_time_of_its_own(harness: Harness) -> None:
    log = await harness.open(LogSettings(dedup_window_ms=DAY, delivery=DeliveryLimits(DAY, -1)))
    await log.append(identified("a", time=MS))
    assert await log.append(identified("a", time=MS)) == Appended(0, 0, -1)
    await log.append(scheduled([SOON], time=MS))
    assert found(log) == [(1, 1, SOON)]
    assert log.transactions.first_unstable_offset() is None


async def test_aborted_transactions_are_found_beside_scheduled_records(harness: Harness) -> None:
    log = await harness.open(ENABLED)
    await log.end_transaction(Marker(7, 0, 0, commit=False))
    await log.append(scheduled([SOON], time=MS))
    log = await harness.open(ENABLED)
    assert log.transactions.aborted_in(0, 9) == []


async def test_a_recalled_record_is_known_also_after_a_failover(harness: Harness) -> None:
    log = await harness.open(ENABLED)
    await log.append(scheduled([None, SOON, SOON, LATER], time=MS))
    for _ in range(2):
        await log.recall(2, lambda: MS)
    assert (log.scheduled, log.recalled) == (3, 1)
    for _ in range(2):
        assert list(log.transactions.schedules.recalled_in(0, 4)) == [2]
        log = await harness.open(ENABLED)
    await log.recall(2, lambda: LATER + DAY)
    await log.delete_records(-1)
    assert not await harness.store.snapshots(NAME)
    assert not log.transactions.schedules.recalled


@pytest.mark.parametrize(
    ("offset", "now_ms", "code"),
    [
        pytest.param(0, MS, ErrorCode.RESOURCE_NOT_FOUND, id="not scheduled"),
        pytest.param(1, SOON - 500, ErrorCode.INVALID_RECORD_STATE, id="due"),
        pytest.param(2, MS, ErrorCode.OFFSET_OUT_OF_RANGE, id="beyond the end"),
        pytest.param(-1, MS, ErrorCode.OFFSET_OUT_OF_RANGE, id="before the start"),
    ],
)
async def test_other_records_are_not_recalled(
    harness: Harness, offset: int, now_ms: int, code: ErrorCode
) -> None:
    log = await harness.open(ENABLED)
    await log.append(scheduled([None, SOON], time=MS))
    assert await code_of(log.recall(offset, lambda: now_ms)) is code
    assert not log.transactions.schedules.recalled


async def test_a_recall_that_becomes_durable_too_late_is_reported(harness: Harness) -> None:
    log = await harness.open(ENABLED)
    await log.append(scheduled([SOON], time=MS))
    times = iter([MS, SOON])
    assert await code_of(log.recall(0, lambda: next(times))) is ErrorCode.INVALID_RECORD_STATE


async def test_a_failed_recall_has_no_effect(harness: Harness) -> None:
    log = await harness.open(ENABLED)
    await log.append(scheduled([SOON], time=MS))
    harness.store.fail_next_append(Fault.NOT_WRITTEN)
    assert await code_of(log.recall(0, lambda: MS)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not log.transactions.schedules.recalled


async def test_lost_records_are_restored_with_their_times(harness: Harness) -> None:
    log = await harness.open(ENABLED)
    await log.append(scheduled([SOON], time=MS))
    await log.recall(0, lambda: MS)
    await harness.store.delete(NAME)
    await log.recheck()
    await until_open(log)
    assert set(await harness.store.snapshots(NAME)) == {"s0", "r0"}
    assert found(log) == [(0, 0, SOON)]


def test_settings_of_a_topic_limit_delivery_times_by_its_retention() -> None:
    assert LogSettings().delivery is None
    assert Retention().retention_ms > DAY
