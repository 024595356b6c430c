"""Copies for share groups in a log that fails over, loses data and is trimmed, against a naive model."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.record_log.copies import CopySource, append_copies, encoded
from sharebroker_server.record_log.core.addressed import (
    AlreadyCopiedError,
    CopyAddress,
    copied,
    find_copy,
)
from sharebroker_server.record_log.partition_log import PartitionLog
from tests.testkit.memory.stream_log import Fault
from tests.unit.record_log.batches import batch
from tests.unit.record_log.harness import Harness, until_open

GROUPS = ("a", "b", "c")
SOURCES = 6


class Copy(NamedTuple):
    """One copy; `last` is the last offset of its append, whose note is kept as long as one of its records."""

    offset: int
    group: str
    request: str
    source: int
    last: int


@dataclass
class Model:
    """The bounds of the log, and all copies."""

    end: int = SOURCES
    start: int = 0
    copies: list[Copy] = field(default_factory=list)

    def noted(self) -> list[Copy]:
        return [each for each in self.copies if each.last >= self.start]

    def knows(self, to: CopyAddress, sources: set[int]) -> bool:
        return any(to == (each.group, each.request) and each.source in sources for each in self.noted())

    def add(self, to: CopyAddress, sources: set[int]) -> None:
        last = self.end + len(sources) - 1
        self.copies += [
            Copy(offset, *to, source, last) for offset, source in enumerate(sorted(sources), self.end)
        ]
        self.end = last + 1


RETRY = st.tuples(
    st.just("retry"),
    st.sampled_from(GROUPS),
    st.sampled_from(["r1", "r2"]),
    st.sets(st.integers(0, SOURCES - 1), min_size=1, max_size=3),
    st.sampled_from([None, None, Fault.NOT_WRITTEN, Fault.DONE_UNKNOWN, Fault.LOST_UNKNOWN]),
)
STEPS = st.lists(
    st.one_of(
        RETRY,
        RETRY,
        st.tuples(st.just("publish")),
        st.tuples(st.just("fail over")),
        st.tuples(st.just("trim"), st.integers(0, 30)),
    ),
    max_size=14,
)


@given(STEPS)
def test_copies_agree_with_a_model(steps: list[tuple[object, ...]]) -> None:
    asyncio.run(run(steps))


async def run(steps: list[tuple[object, ...]]) -> None:
    harness, model = Harness(), Model()
    log = await harness.open()
    await log.append(batch(SOURCES))
    for step in steps:
        match step:
            case ("retry", str(group), str(request), set(sources), fault):
                await retry(harness, log, model, CopyAddress(group, request), sources, fault)
            case ("publish",):
                await log.append(batch(1))
                model.end += 1
            case ("fail over",):
                log = await harness.open()
            case ("trim", int(offset)):
                model.start = max(model.start, min(offset, model.end))
                await log.delete_records(min(offset, model.end))
        check(log, model)


async def retry(
    harness: Harness, log: PartitionLog, model: Model, to: CopyAddress, sources: set[int], fault: object
) -> None:
    """Copies records; whether the copies count after a fault depends on what the store has."""
    data, taken = encoded(
        [CopySource(offset, None, b"x", ()) for offset in sorted(sources)], to, "t/0", 1 << 20, 0
    )
    known = model.knows(to, sources)
    if isinstance(fault, Fault) and not known:
        harness.store.fail_next_append(fault)
    try:
        await append_copies(log, data, taken, to)
    except AlreadyCopiedError:
        assert known
        return
    except KafkaError:
        assert isinstance(fault, Fault)
        await until_open(log)
        if fault is Fault.DONE_UNKNOWN:
            model.add(to, sources)
        return
    assert not known
    model.add(to, sources)


def check(log: PartitionLog, model: Model) -> None:
    assert log.log_end_offset == model.end
    for group in (*GROUPS, "d"):
        hidden = {
            offset
            for first, last in log.transactions.for_others(group, model.start, model.end)
            for offset in range(max(first, model.start), last + 1)
        }
        hidden_copies = {each.offset for each in model.copies if each.group != group}
        assert hidden == {offset for offset in hidden_copies if offset >= model.start}
        runs = copied(log.transactions.notes.items(), group)
        for source in range(SOURCES):
            found = [each.offset for each in model.noted() if (each.group, each.source) == (group, source)]
            assert find_copy(runs, source) == max(found, default=None)
