"""Sequences and transactions against a naive model that keeps every batch."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import BatchHeader, parse_headers
from sharebroker_server.record_log.core.producers import RETAINED_BATCHES, Marker, Verified
from sharebroker_server.record_log.core.sequence_gaps import GAP_TIMEOUT_MS
from sharebroker_server.record_log.core.snapshots import load_snapshots, snapshots_of
from sharebroker_server.record_log.core.transactions import Draft, Transactions
from tests.unit.record_log.batches import LIMIT, batch

COUNTS = 3
TRANSACTIONAL = (1, 2)
"""Producers with transactions; 3 has none."""

writes = st.tuples(st.sampled_from([1, 2, 3]), st.integers(0, 2), st.integers(0, 8), st.integers(1, COUNTS))
marks = st.tuples(st.sampled_from(TRANSACTIONAL), st.integers(0, 2), st.booleans())
groups = st.lists(st.lists(writes | marks, min_size=1, max_size=6), max_size=12)
pauses = st.lists(st.sampled_from([0, GAP_TIMEOUT_MS // 2, GAP_TIMEOUT_MS]), max_size=12)


@dataclass
class Naive:
    """Every batch of every producer, in order: (epoch, first sequence, last sequence, offset)."""

    end: int = 0
    sent: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    opened: dict[int, int] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    gaps: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The epoch of each producer's gap, and since when it exists."""
    now: int = 0

    def write(self, producer: int, epoch: int, first: int, count: int) -> int | ErrorCode:
        last = first + count - 1
        known = self.epochs.get(producer)
        of_epoch = [row for row in self.sent.get(producer, []) if row[0] == epoch]
        for row in of_epoch[-RETAINED_BATCHES:]:
            if known == epoch and row[1:3] == (first, last):
                return row[3]
        expected = of_epoch[-1][2] + 1 if of_epoch and known == epoch else 0
        if known is not None and epoch < known:
            self.gaps.pop(producer, None)
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if first > expected:
            since = self.gaps.get(producer, (-1, 0))
            if since[0] != epoch:
                since = self.gaps[producer] = epoch, self.now
            if self.now - since[1] < GAP_TIMEOUT_MS:
                return ErrorCode.KAFKA_STORAGE_ERROR
        else:
            self.gaps.pop(producer, None)
        if known is not None and first != expected:
            forgotten = len(of_epoch) >= RETAINED_BATCHES and last < of_epoch[-RETAINED_BATCHES][1]
            return (
                ErrorCode.DUPLICATE_SEQUENCE_NUMBER if forgotten else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            )
        self.epochs[producer] = epoch
        self.sent.setdefault(producer, []).append((epoch, first, last, self.end))
        if producer in TRANSACTIONAL:
            self.opened.setdefault(producer, self.end)
        self.end += count
        return self.end - count

    def mark(self, producer: int, epoch: int, commit: bool) -> int | ErrorCode:
        if epoch < self.epochs.get(producer, 0):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        self.epochs[producer] = epoch
        start = self.opened.pop(producer, None)
        if start is not None and not commit:
            self.aborted.append((producer, start, self.end))
        self.end += 1
        return self.end - 1


def header(producer: int, epoch: int, first: int, count: int) -> BatchHeader:
    data = batch(count, producer=(producer, epoch, first), transactional=producer in TRANSACTIONAL)
    return parse_headers(data, LIMIT)[0]


@given(groups, st.lists(st.booleans(), max_size=12), pauses)
def test_producer_state_equals_the_model(
    history: list[list[tuple[int, int, int, int] | tuple[int, int, bool]]],
    lost: list[bool],
    pauses: list[int],
) -> None:
    """Groups that are lost leave no trace; saved state can be loaded at any point."""
    transactions, naive, kept = Transactions(), Naive(), dict[str, bytes]()
    for number, group in enumerate(history):
        draft, end = transactions.draft(), naive.end
        naive.now += pauses[number] if number < len(pauses) else 0
        if number < len(lost) and lost[number]:
            for step in group:
                take(draft, end, step, naive.now)
            transactions.gaps.restart()
            naive.gaps.clear()
            continue
        for step in group:
            expected = naive.mark(*step) if len(step) == 3 else naive.write(*step)
            outcome, end = take(draft, end, step, naive.now)
            assert outcome == expected
        transactions.commit(draft)
        kept |= snapshots_of(draft)
        for one in (transactions, load_snapshots(kept)):
            check(one, naive)


def take(draft: Draft, end: int, step: tuple[int, ...], now: int) -> tuple[int | ErrorCode, int]:
    """Runs the step on the draft; returns the offset or the error, and the end after it."""
    try:
        if len(step) == 3:
            producer, epoch, commit = step
            draft.end(Marker(producer, epoch, 0, bool(commit)), end, now)
            return end, end + 1
        earlier = draft.append(header(*step), end, now, Verified(end, renews_epoch=False))
    except KafkaError as error:
        return error.code, end
    return (earlier.base_offset, end) if earlier else (end, end + step[3])


def check(transactions: Transactions, naive: Naive) -> None:
    assert {id_: state.epoch for id_, state in transactions.producers.items()} == naive.epochs
    assert transactions.first_unstable_offset() == min(naive.opened.values(), default=None)
    for first in range(0, naive.end, 2):
        for end in (first + 1, first + 3, naive.end):
            expected = [row for row in naive.aborted if row[2] >= first and row[1] < end]
            assert [row[:3] for row in transactions.aborted_in(first, end)] == expected
