"""Expiry of records by age: no member receives an expired record, and every other record is delivered."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.model import AckBatch, AcquiredRange, AcquireMode
from sharebroker_server.record_log.core.schedules import Schedules
from sharebroker_server.share_partition_leader.core.events import (
    Acquire,
    AcquireRequest,
    LoadedState,
    SharePartitionSettings,
)
from sharebroker_server.share_partition_leader.share_partition.reading import split_expired
from tests.unit.record_log.batches import stored
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import check

ACCEPT, RELEASE = 1, 2
MAX_AGE = 10.0

# The sizes of batches and the newest timestamps of their records, in seconds; -1: none.
BATCHES = st.lists(st.tuples(st.integers(1, 4), st.integers(-1, 30)), min_size=1, max_size=12)
STEPS = st.lists(
    st.tuples(
        st.integers(1, 20),
        st.sampled_from(AcquireMode),
        st.sampled_from([ACCEPT, RELEASE]),
        st.integers(0, 6),
    ),
    max_size=12,
)


class Expiring:
    """A share-partition that reads a whole log; `newest` has the time of each offset's batch."""

    def __init__(self, batches: list[tuple[int, int]]) -> None:
        settings = SharePartitionSettings(
            delivery_count_limit=14, max_record_locks=20, max_record_age=MAX_AGE
        )
        self.share = SteppedPartition(settings, LoadedState(1, 1, 0))
        self.newest: list[int] = []
        self.batches = []
        for size, newest in batches:
            batch = stored(len(self.newest), size, time=0)
            self.batches.append(batch._replace(max_timestamp=newest * 1000 if newest >= 0 else -1))
            self.newest += [newest] * size

    def expired(self, offset: int, now: float) -> bool:
        """The naive rule."""
        return self.newest[offset] >= 0 and now - self.newest[offset] > MAX_AGE

    def acquire(self, request: AcquireRequest, now: float) -> list[AcquiredRange]:
        while (offset := self.share.fetch_offset(0, len(self.newest))) is not None:
            read = [batch for batch in self.batches if batch.last_offset >= offset]
            spans, expired, _ = split_expired(read, (now - MAX_AGE) * 1000, Schedules().latest_in)
            acquired = self.share.handle(Acquire(request, offset, spans, (), expired), now).acquired
            if acquired:
                return list(acquired)
            assert self.share.fetch_offset(0, len(self.newest)) != offset
        return []

    def acknowledge(self, acquired: list[AcquiredRange], kind: int, now: float) -> None:
        batches = [AckBatch(item.first, item.last, (kind,), item.token) for item in acquired]
        transition = self.share.acknowledge("m", batches, now)
        if transition is not None:
            self.share.write([transition])
            self.share.complete([transition])


@given(batches=BATCHES, steps=STEPS)
def test_only_records_that_did_not_expire_are_delivered(
    batches: list[tuple[int, int]], steps: list[tuple[int, AcquireMode, int, int]]
) -> None:
    one, now = Expiring(batches), 20.0
    accepted: set[int] = set()
    rest = [(20, AcquireMode.BATCH_OPTIMIZED, ACCEPT, 0)] * len(one.newest)
    for most, mode, kind, pause in [*steps, *rest]:
        acquired = one.acquire(AcquireRequest("m", most, 500, mode), now)
        offsets = {offset for item in acquired for offset in range(item.first, item.last + 1)}
        check(one.share)
        assert not any(one.expired(offset, now) for offset in offsets)
        one.acknowledge(acquired, kind, now)
        accepted |= offsets if kind == ACCEPT else set()
        check(one.share)
        now += pause
    never = set(range(len(one.newest))) - accepted
    assert all(one.expired(offset, now) for offset in never)
    assert one.share.counts.expired == len(never)
    assert one.share.start_offset == len(one.newest)
