"""Look-up of records by timestamp."""

from __future__ import annotations

import pytest

from sharebroker_server.record_log.core.log_state import Limits
from sharebroker_server.record_log.core.producers import Marker
from sharebroker_server.record_log.offset_for_time import TimedOffset
from sharebroker_server.record_log.record_validation import LogSettings
from tests.unit.record_log.batches import batch
from tests.unit.record_log.harness import NOW, SIZE, Harness, offset_since


@pytest.mark.parametrize("codec", [0, 2, 4])
async def test_offset_for_timestamp(harness: Harness, codec: int) -> None:
    log = await harness.open(LogSettings(limits=Limits(segment_bytes=2 * SIZE)))
    for i in range(5):
        await log.append(batch(4, time=1000 * i, codec=codec))
    expected = [(0, 0), (1, 1), (3, 3), (4, 4), (1000, 4), (2002, 10), (2004, 12), (4003, 19), (4004, None)]
    assert [(ts, await offset_since(log, ts)) for ts, _ in expected] == expected
    await log.delete_records(5)
    assert await log.offset_for_timestamp(0) == TimedOffset(5, 1001)
    assert await log.offset_for_timestamp(1003) == TimedOffset(7, 1003)


async def test_offset_for_timestamp_with_log_append_time(harness: Harness) -> None:
    log = await harness.open(LogSettings(log_append_time=True))
    await log.append(batch(4))
    harness.now = NOW + 1
    await log.append(batch(4))
    assert await log.offset_for_timestamp(int(NOW * 1000) + 1) == TimedOffset(4, int(NOW * 1000) + 1000)


async def test_offset_for_timestamp_of_an_undecodable_batch(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.unit.record_log.core.test_batch import patched

    # Such a batch is refused now; an older version kept it.
    monkeypatch.setattr("sharebroker_server.record_log.record_validation.check_records", lambda *_: None)
    log = await harness.open()
    garbage = batch(4, codec=1)
    await log.append(patched(garbage, 61, ">I", 0xDEADBEEF))
    assert await offset_since(log, 1002) == 0


async def test_offset_for_timestamp_passes_records_without_one(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch(1, time=-1))
    assert await log.offset_for_timestamp(5) is None


async def test_the_newest_record_is_found_and_a_marker_is_none(harness: Harness) -> None:
    log = await harness.open(LogSettings(limits=Limits(segment_bytes=2 * SIZE)))
    assert await log.offset_of_newest() is None
    for i in (0, 5, 3, 5, 1):
        await log.append(batch(4, time=1000 * i))
        await log.end_transaction(Marker(7, 0, 1, commit=True))
    assert await log.offset_of_newest() == TimedOffset(8, 5003)
    assert await log.offset_for_timestamp(5004) is None


async def test_a_batch_that_claims_a_newer_record_than_it_has_is_passed(harness: Harness) -> None:
    from tests.unit.record_log.core.test_batch import patched

    log = await harness.open()
    await log.append(patched(batch(3, time=1000), 35, ">q", 9000))
    await log.append(batch(3, time=5000))
    assert await log.offset_for_timestamp(4000) == TimedOffset(3, 5000)
