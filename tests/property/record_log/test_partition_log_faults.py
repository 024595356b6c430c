"""Appends under every fault: acknowledged records are stored once and in order; rejected ones are absent."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.appends import Appended
from sharebroker_server.record_log.core.log_state import MemoryLimits
from sharebroker_server.record_log.lifecycle import LogPhase
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.record_log.record_validation import LogSettings
from tests.support.lease import Lease
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.testkit.memory.stream_log import Fault
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch

NAME = "partition:t:0"
BATCHES = {count: batch(count) for count in range(1, 6)}
turns = st.lists(
    st.tuples(
        st.lists(st.integers(1, 5), min_size=1, max_size=4),
        st.none() | st.sampled_from([Fault.NOT_WRITTEN, Fault.LOST_UNKNOWN, Fault.DONE_UNKNOWN]),
        st.none() | st.integers(-1, 30),
    ),
    max_size=8,
)


@given(turns, st.integers(0, 300), st.integers(1, 300))
def test_acknowledged_appends_survive_any_faults(
    history: list[tuple[list[int], Fault | None, int | None]], hot_cache_bytes: int, segment_bytes: int
) -> None:
    asyncio.run(play(history, LogSettings(limits=MemoryLimits(hot_cache_bytes, segment_bytes))))


async def play(history: list[tuple[list[int], Fault | None, int | None]], settings: LogSettings) -> None:
    lease = Lease()
    store = MemoryRecordStore(epoch_of=lambda _: lease.epoch)
    log = await PartitionLog.open(NAME, lease.epoch, store, lease, settings)
    answered: list[Appended] = []
    unknown = 0
    for counts, fault, trim in history:
        if fault is not None:
            store.fail_next_append(fault)
        results = await asyncio.gather(*(log.append(BATCHES[n]) for n in counts), return_exceptions=True)
        answered += [result for result in results if isinstance(result, Appended)]
        codes = {result.code for result in results if isinstance(result, KafkaError)}
        assert codes == codes_of(fault)
        unknown += sum(counts) if fault is Fault.DONE_UNKNOWN else 0
        await eventually(lambda: log.phase is LogPhase.OPEN)
        if trim is not None and trim <= log.log_end_offset:
            await log.delete_records(trim)
    again = await PartitionLog.open(NAME, lease.epoch, store, lease, settings)
    for reader in (log, again):
        assert await spans(reader) == [
            (b.base_offset, b.last_offset) for b in await store.read(NAME, 0, 10**9)
        ]
    assert all(before.last_offset < after.base_offset for before, after in pairwise(answered))
    assert log.log_end_offset == unknown + sum(a.last_offset - a.base_offset + 1 for a in answered)
    assert (again.log_start_offset, again.log_end_offset) == (log.log_start_offset, log.log_end_offset)


def codes_of(fault: Fault | None) -> set[ErrorCode]:
    if fault is None:
        return set()
    return {ErrorCode.KAFKA_STORAGE_ERROR if fault is Fault.NOT_WRITTEN else ErrorCode.REQUEST_TIMED_OUT}


async def spans(log: PartitionLog) -> list[tuple[int, int]]:
    """Returns first and last offset of every batch, read one by one."""
    found, offset = [], log.log_start_offset
    while batches := await log.read(offset, 1):
        found += [(b.base_offset, b.last_offset) for b in batches]
        offset = batches[-1].last_offset + 1
    return found
