"""Scheduled records: none is delivered early, each is delivered, and none blocks the others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.model import AckBatch, AcquiredRange, AcquireMode
from sharebroker_server.record_log.core.schedules import Schedules, ranges_of
from sharebroker_server.share_partition_leader.core.events import (
    Acquire,
    AcquireRequest,
    Loaded,
    LogBatch,
    SharePartitionSettings,
    TimerFired,
)
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import Store, check

ACCEPT, RELEASE = 1, 2
START = 100.0
EARLIEST_MS = int(START * 1000)

# The delivery time of each record of each batch, in seconds after the start; 0: none.
BATCHES = st.lists(st.lists(st.integers(0, 12) | st.just(0), min_size=1, max_size=6), min_size=1, max_size=8)
STEPS = st.lists(
    st.tuples(
        st.integers(1, 20),
        st.sampled_from(AcquireMode),
        st.sampled_from([ACCEPT, RELEASE, None]),
        st.integers(0, 3),
    ),
    max_size=14,
)


class ScheduledLog:
    """A share-partition that reads a whole log; `due` has the time of each offset. `None` fails over."""

    def __init__(self, batches: list[list[int]], offset_ms: float) -> None:
        self.due = [START + time if time else 0.0 for batch in batches for time in batch]
        self.log: list[LogBatch] = []
        for batch in batches:
            first = self.log[-1][1] + 1 if self.log else 0
            self.log.append((first, first + len(batch) - 1))
        self.schedules = Schedules(ranges_of([int(due * 1000) for due in self.due], 0, EARLIEST_MS))
        self.settings = SharePartitionSettings(delivery_count_limit=20, max_record_locks=20)
        self.store = Store()
        self.offset_ms = offset_ms
        self.load(START)

    def load(self, now: float) -> None:
        loaded = self.store.loaded()
        object.__setattr__(loaded, "clock_offset_ms", self.offset_ms)
        self.share = SteppedPartition(self.settings, loaded)
        self.share.handle(Loaded(), now)

    def acquire(self, request: AcquireRequest, now: float) -> list[AcquiredRange]:
        end = len(self.due)
        while (offset := self.share.fetch_offset(0, end)) is not None:
            read = [batch for batch in self.log if batch[1] >= offset]
            scheduled = list(self.schedules.between(offset, end))
            acquired = self.share.handle(Acquire(request, offset, read, (), (), scheduled), now).acquired
            check(self.share)
            if acquired:
                return list(acquired)
            assert self.share.fetch_offset(0, end) != offset
        return []

    def acknowledge(self, acquired: list[AcquiredRange], kind: int, now: float) -> None:
        batches = [AckBatch(item.first, item.last, (kind,), item.token) for item in acquired]
        transition = self.share.acknowledge("m", batches, now)
        if transition is not None:
            self.store.apply(self.share.write([transition]))
            self.share.complete([transition])


@given(batches=BATCHES, steps=STEPS, offset_ms=st.sampled_from([0.0, -700.0, 1300.0]))
def test_records_are_delivered_at_their_time(
    batches: list[list[int]], steps: list[tuple[int, AcquireMode, int | None, int]], offset_ms: float
) -> None:
    one, now = ScheduledLog(batches, offset_ms), START
    accepted: list[int] = []
    rest = [(20, AcquireMode.BATCH_OPTIMIZED, ACCEPT, 1)] * (len(one.due) + 15)
    for most, mode, kind, pause in [*steps, *rest]:
        one.share.handle(TimerFired(), now)
        acquired = one.acquire(AcquireRequest("m", most, 500, mode), now)
        offsets = [offset for item in acquired for offset in range(item.first, item.last + 1)]
        stored_now = now + offset_ms / 1000
        assert all(one.due[offset] <= stored_now for offset in offsets)
        due = [offset for offset in range(len(one.due)) if one.due[offset] <= stored_now]
        assert offsets or set(due) <= set(accepted)
        if kind is None:
            one.load(now)
        elif acquired:
            one.acknowledge(acquired, kind, now)
            accepted += offsets if kind == ACCEPT else []
        now += pause
    assert sorted(accepted) == list(range(len(one.due)))
    assert one.share.start_offset == len(one.due)
