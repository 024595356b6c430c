"""Duplicates by message id equal those of a naive model, before and after every fail-over."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.record_log.core.log_state import MemoryLimits
from sharebroker_server.record_log.core.producers import Marker, Verified
from sharebroker_server.record_log.record_validation import LogSettings
from tests.unit.record_log.batches import identified
from tests.unit.record_log.harness import NOW, Harness

WINDOW = 1000
IDEMPOTENT, TRANSACTIONAL = 1, 2
SETTINGS = LogSettings(dedup_window_ms=WINDOW, limits=MemoryLimits(hot_cache_bytes=300, segment_bytes=400))

writes = st.tuples(
    st.just("write"),
    st.lists(st.none() | st.sampled_from("abcd"), min_size=1, max_size=4),
    st.integers(-1500, 100),  # the age of the timestamp
    st.sampled_from([None, IDEMPOTENT, TRANSACTIONAL]),
)
steps = st.one_of(
    writes,
    writes,
    st.tuples(st.just("pause"), st.integers(1, 700)),
    st.tuples(st.just("end"), st.booleans()),
    st.tuples(st.just("fail over")),
)


@dataclass
class Naive:
    """Every record with an id that counts: (id, offset, timestamp), and those of the open transaction."""

    end: int = 0
    counted: list[tuple[str, int, int]] = field(default_factory=list)
    opened: list[tuple[str, int, int]] = field(default_factory=list)
    skipped: set[int] = field(default_factory=set)

    def write(self, ids: list[str | None], time: int, now: int, transactional: bool) -> tuple[int, int]:
        """Returns the first and last offset of the response."""
        originals: list[int | None] = []
        added: list[tuple[str, int, int]] = []
        known = self.counted + (self.opened if transactional else [])
        for offset, message_id in enumerate(ids, self.end):
            same = [
                (at, -at_offset) for id_, at_offset, at in known if id_ == message_id and at > now - WINDOW
            ]
            within = [at for id_, at, _ in added if id_ == message_id]
            originals.append(-max(same)[1] if same else within[0] if within else None)
            if message_id is not None and originals[-1] is None:
                added.append((message_id, offset, min(time, now)))
        first = originals[0]
        if not transactional and first is not None and originals == list(range(first, first + len(ids))):
            return first, first + len(ids) - 1
        self.skipped |= {self.end + index for index, original in enumerate(originals) if original is not None}
        (self.opened if transactional else self.counted).extend(added)
        self.end += len(ids)
        return self.end - len(ids), self.end - 1

    def finish(self, commit: bool) -> None:
        self.counted += self.opened if commit else []
        self.opened = []
        self.end += 1


@given(st.lists(steps, max_size=25))
def test_duplicates_equal_the_model(history: list[tuple[Any, ...]]) -> None:
    asyncio.run(play(history))


async def play(history: list[tuple[Any, ...]]) -> None:
    harness, naive = Harness(), Naive()
    log = await harness.open(SETTINGS)
    sequences = {IDEMPOTENT: 0, TRANSACTIONAL: 0}
    for kind, *details in history:
        now = int(harness.now * 1000)
        if kind == "write":
            ids, age, producer = details
            sequence = sequences.get(producer, -1)
            by = (-1, -1, -1) if producer is None else (producer, 0, sequence)
            data = identified(ids, time=now + age, producer=by, transactional=producer == TRANSACTIONAL)
            expected = naive.write(ids, now + age, now, producer == TRANSACTIONAL)
            appended = await log.append(data, Verified(log.log_end_offset, renews_epoch=False))
            assert (appended.base_offset, appended.last_offset) == expected
            if producer is not None:
                sequences[producer] += len(ids)
        elif kind == "pause":
            harness.now += details[0] / 1000
        elif kind == "end":
            await log.end_transaction(Marker(TRANSACTIONAL, 0, 0, details[0]))
            naive.finish(details[0])
        else:
            log = await harness.open(SETTINGS)
        assert log.log_end_offset == naive.end
        ranges = log.transactions.duplicates_in(0, naive.end)
        assert {o for first, last in ranges for o in range(first, last + 1)} == naive.skipped
    assert harness.now >= NOW
