"""Whatever leaders do to a log: what was read and is not there any more lies behind the divergence."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.upstream_log.core.epochs import Divergence, EpochHistory, EpochStart


@dataclass
class Log:
    """A log whose records have a leader epoch and a number of their own."""

    records: list[tuple[int, int]] = field(default_factory=list)
    epoch: int = 0
    made: int = 0

    def append(self, count: int) -> None:
        for _ in range(count):
            self.records.append((self.epoch, self.made))
            self.made += 1

    def elect(self, lost: int) -> None:
        """Elects a leader that lacks the last records."""
        del self.records[max(len(self.records) - lost, 0) :]
        self.epoch += 1

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """As a broker answers: the largest epoch up to one, and the offset where it ends."""
        if epoch == self.epoch:
            return epoch, len(self.records)
        below = [number for number, _ in self.records if number <= epoch]
        if not below:
            return epoch, 0
        return below[-1], len(below)


Step = tuple[str, int, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("elect"), st.integers(0, 8), st.just(0)),
        st.tuples(st.just("read"), st.integers(0, 30), st.integers(1, 6)),
        st.tuples(st.just("compare"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS)
def test_differing_records_are_behind_the_divergence(steps: list[Step]) -> None:
    log, history, seen = Log(), EpochHistory(), dict[int, tuple[int, int]]()
    compared = 0
    for name, first, count in [*steps, ("compare", 0, 0)]:
        if name == "append":
            log.append(first)
        elif name == "elect":
            log.elect(first)
        elif name == "read" and compared == log.epoch:  # nothing is read from a leader before the comparison
            for offset in range(first, min(first + count, len(log.records))):
                seen[offset] = log.records[offset]
                history = history.with_read([EpochStart(seen[offset][0], offset)])
        elif name == "compare":
            divergence = Divergence(history.epochs)
            while not divergence.ended:
                divergence.answer(*log.epoch_end(divergence.epoch))
            differs = [n for n, record in seen.items() if log.records[n : n + 1] != [record]]
            void = divergence.offset
            if differs:
                assert void is not None
                assert void <= min(differs)
            elif seen and void is not None:
                assert void > max(seen)
            if void is not None:
                history = history.truncated(void, compared + 1)
                seen = {offset: record for offset, record in seen.items() if offset < void}
            compared = log.epoch
