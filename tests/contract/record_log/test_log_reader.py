"""The guarantees of every log that share-partitions read, stated for any producer of its records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import StoredBatch, parse_headers
from sharebroker_server.record_log.core.log_state import MemoryLimits
from sharebroker_server.record_log.core.producers import Marker, Verified
from sharebroker_server.record_log.log_reader import LogReader, Span
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.record_log.record_validation import LogSettings
from sharebroker_server.upstream_log.fetching import FetchSettings
from sharebroker_server.upstream_log.upstream_cluster import Limits
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch
from tests.unit.record_log.harness import Harness, offsets
from tests.unit.upstream_log.harness import running

ALL = 1 << 20
PRODUCER = (7, 0)


@dataclass
class LogFixture:
    """A log, and the means of its owner to change it; each waits until the log shows the change."""

    log: LogReader
    append: Callable[[bytes], Awaitable[object]]
    end_transaction: Callable[[bool], Awaitable[object]]
    delete_before: Callable[[int], Awaitable[object]]


async def own_log(cached_bytes: int) -> LogFixture:
    log: PartitionLog = await Harness().open(LogSettings(limits=MemoryLimits(hot_cache_bytes=cached_bytes)))

    async def append(data: bytes) -> object:
        producer = parse_headers(data, ALL)[0].producer_id
        return await log.append(data, Verified(0, renews_epoch=False) if producer >= 0 else None)

    async def end_transaction(commit: bool) -> object:
        return await log.end_transaction(Marker(*PRODUCER, 0, commit))

    return LogFixture(log, append, end_transaction, log.delete_records)


@asynccontextmanager
async def upstream_log(cached_bytes: int) -> AsyncIterator[LogFixture]:
    """The log of a partition of another cluster, which holds one chunk in memory if `cached_bytes` is 1."""
    settings = FetchSettings(partition_bytes=min(cached_bytes, ALL))
    async with running(settings, Limits(cached=cached_bytes, tail=max(cached_bytes, 100))) as harness:
        cluster, log = harness.cluster, await harness.open()

        async def shown() -> None:
            if log.is_behind:
                await log.refresh()
            expected = (cluster.log.start, cluster.log.stable, cluster.log.end)
            await eventually(
                lambda: (log.log_start_offset, log.last_stable_offset, log.records_end_offset) == expected
            )

        async def append(data: bytes) -> None:
            cluster.append(data)
            await shown()

        async def end_transaction(commit: bool) -> None:
            cluster.end_transaction(commit)
            await shown()

        async def delete_before(offset: int) -> None:
            cluster.delete_before(offset)
            await shown()

        yield LogFixture(log, append, end_transaction, delete_before)


@pytest.fixture(params=[ALL, 1], ids=["in memory", "from the store"])
def cached_bytes(request: pytest.FixtureRequest) -> int:
    cached: int = request.param
    return cached


@pytest.fixture(params=["own", "upstream"])
async def fixture(request: pytest.FixtureRequest, cached_bytes: int) -> AsyncIterator[LogFixture]:
    if request.param == "own":
        yield await own_log(cached_bytes)
    else:
        async with upstream_log(cached_bytes) as made:
            yield made


async def read(log: LogReader, offset: int, max_bytes: int = ALL) -> list[tuple[int, int]]:
    return offsets(await log.read(offset, max_bytes))


async def read_committed(log: LogReader) -> tuple[list[StoredBatch], list[Span]]:
    """Returns all batches, and the spans of those of aborted transactions."""
    found: list[StoredBatch] = []
    aborted: list[Span] = []
    while not found or found[-1].last_offset + 1 < log.last_stable_offset:
        offset = found[-1].last_offset + 1 if found else 0
        batches = await log.read(offset, ALL, committed=True)
        assert batches
        assert log.aborted_batches(()) == []
        found += batches
        aborted += log.aborted_batches(batches)
    return found, aborted


async def test_an_empty_log_has_nothing_to_read(fixture: LogFixture) -> None:
    log = fixture.log
    assert (log.log_start_offset, log.records_end_offset, log.last_stable_offset) == (0, 0, 0)
    assert await read(log, 0) == []
    assert await log.offset_for_timestamp(0) is None


async def test_reads_begin_with_the_batch_of_the_offset(fixture: LogFixture) -> None:
    for _ in range(3):
        await fixture.append(batch(3))
    assert fixture.log.records_end_offset == 9
    for offset in range(9):
        first = offset // 3 * 3
        expected = [(start, start + 2) for start in range(first, 9, 3)]
        found = await read(fixture.log, offset)
        assert found == expected[: len(found)] != []
        assert await read(fixture.log, offset, 1) == expected[:1]
        hot = fixture.log.read_hot(offset, ALL)
        assert hot is None or offsets(hot) == expected[: len(hot)] != []
    assert await read(fixture.log, 9) == []


async def test_batches_are_the_bytes_of_the_producer(fixture: LogFixture) -> None:
    data = batch(3, codec=1)
    await fixture.append(data)
    (found,) = await fixture.log.read(0, ALL)
    assert found.data[16:] == data[16:]  # offset, length and leader epoch are the log's
    assert found.max_timestamp == 1002


@pytest.mark.parametrize("offset", [0, 2, 10])
async def test_offsets_outside_the_log_are_out_of_range(fixture: LogFixture, offset: int) -> None:
    for _ in range(3):
        await fixture.append(batch(3))
    await fixture.delete_before(3)
    assert fixture.log.log_start_offset == 3
    with pytest.raises(KafkaError) as rejected:
        await fixture.log.read(offset, ALL)
    assert rejected.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(("since", "offset"), [(0, 0), (1001, 1), (1003, 3), (2000, 3), (2003, None)])
async def test_offsets_are_found_by_time(fixture: LogFixture, since: int, offset: int | None) -> None:
    await fixture.append(batch(3, time=1000))
    await fixture.append(batch(3, time=2000))
    found = await fixture.log.offset_for_timestamp(since)
    assert (None if found is None else found.offset) == offset


@pytest.mark.parametrize("commit", [True, False])
async def test_the_last_stable_offset_waits_for_the_end_of_a_transaction(
    fixture: LogFixture, commit: bool
) -> None:
    await fixture.append(batch(2))
    await fixture.append(batch(2, producer=(*PRODUCER, 0), transactional=True))
    await fixture.append(batch(2))
    assert (fixture.log.last_stable_offset, fixture.log.records_end_offset) == (2, 6)
    await fixture.end_transaction(commit)
    assert (fixture.log.last_stable_offset, fixture.log.records_end_offset) == (7, 7)
    batches, aborted = await read_committed(fixture.log)
    assert [found.control for found in batches] == [False, False, False, True]
    assert aborted == ([] if commit else [(2, 3)])
