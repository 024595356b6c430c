"""Open and aborted transactions, and their storage."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_server.record_log.core.batch import header_of, parse_headers
from sharebroker_server.record_log.core.producers import Marker, Verified
from sharebroker_server.record_log.core.snapshots import snapshot_names, snapshots_of
from sharebroker_server.record_log.core.transactions import (
    AbortedTransaction,
    Draft,
    Transactions,
    aborted_spans,
    marker_batch,
)
from tests.unit.record_log.batches import LIMIT, batch


class Partition:
    """Appends to transactions, each in its own draft; `notes` holds the persisted snapshots."""

    def __init__(self) -> None:
        self.transactions = Transactions()
        self.notes: dict[str, bytes] = {}
        self.end = 0
        self._sequences: dict[int, int] = {}

    def write(self, producer_id: int, count: int = 1) -> None:
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + count
        data = batch(count, producer=(producer_id, 0, sequence), transactional=True)
        (header,) = parse_headers(data, LIMIT)
        draft = self.transactions.draft()
        draft.append(header, self.end, 1000, Verified(self.end, renews_epoch=False))
        self._commit(draft, count)

    def mark(self, producer_id: int, *, commit: bool) -> None:
        draft = self.transactions.draft()
        draft.end(Marker(producer_id, 0, 0, commit), self.end, 1000)
        self._commit(draft, 1)

    def _commit(self, draft: Draft, count: int) -> None:
        self.notes |= snapshots_of(draft)
        self.transactions.commit(draft)
        self.end += count

    @property
    def stable(self) -> int:
        return self.transactions.last_stable_offset(0, self.end)


@pytest.fixture
def partition() -> Partition:
    """1: 0-1 aborted at 4; 2: 2-3 open until 7; 3: 5 aborted at 6."""
    partition = Partition()
    partition.write(1, 2)
    partition.write(2, 2)
    partition.mark(1, commit=False)
    partition.write(3)
    partition.mark(3, commit=False)
    return partition


def test_earliest_open_transaction_bounds_the_last_stable_offset(partition: Partition) -> None:
    assert partition.stable == 2
    partition.write(1)
    partition.mark(2, commit=True)
    assert partition.stable == 7
    partition.mark(1, commit=True)
    assert partition.stable == partition.end == 10


def test_the_last_stable_offset_is_not_below_the_log_start(partition: Partition) -> None:
    assert partition.transactions.last_stable_offset(3, partition.end) == 3


def test_aborted_transactions_are_found_by_offset(partition: Partition) -> None:
    first, third = AbortedTransaction(1, 0, 4, 2), AbortedTransaction(3, 5, 6, 2)
    found = partition.transactions.aborted_in
    assert found(0, 1) == [first]
    assert found(0, 7) == found(4, 6) == [first, third]
    assert found(5, 7) == found(6, 7) == [third]
    assert found(7, 100) == []


def test_search_for_aborted_transactions_stops_at_the_range_end() -> None:
    partition = Partition()
    for _ in range(3):
        partition.write(1)
        partition.mark(1, commit=False)
    assert [t.last_offset for t in partition.transactions.aborted_in(0, 2)] == [1]
    assert [t.last_offset for t in partition.transactions.aborted_in(1, 3)] == [1, 3]


def test_trimming_drops_unreadable_transactions(partition: Partition) -> None:
    assert snapshot_names((), *partition.transactions.ended_before(5)) == ["a4"]
    partition.transactions.drop_before(5)
    assert [t.producer_id for t in partition.transactions.aborted_in(0, 100)] == [3]


def test_idle_producers_expire_unless_in_a_transaction(partition: Partition) -> None:
    transactions = partition.transactions
    assert transactions.expired(1000) == []
    assert sorted(transactions.expired(1001)) == [1, 3]
    transactions.remove_producers([1, 3, 99])
    assert transactions.producers.get(1) is None
    assert list(transactions.producers) == [2]


def test_records_of_an_aborted_transaction_precede_its_marker() -> None:
    aborted = [AbortedTransaction(1, 5, 9, 10)]
    spans = [(1, 0, 4), (1, 5, 6), (2, 7, 7), (1, 8, 8), (1, 10, 12)]
    assert list(aborted_spans(spans, aborted)) == [(5, 6), (8, 8)]


@pytest.mark.parametrize("commit", [True, False])
def test_marker_equals_kafkas_encoding(commit: bool) -> None:
    stored = marker_batch(Marker(7, 3, 12, commit), 100, 5, 1_700_000_000_000)
    header = header_of(stored.data)
    assert (header.size, header.record_count, header.base_sequence) == (len(stored.data), 1, -1)
    assert (header.base_offset, header.leader_epoch, header.max_timestamp) == (100, 5, 1_700_000_000_000)
    assert (header.producer_id, header.producer_epoch) == (7, 3)
    assert (header.control, header.transactional) == (True, True)
    assert stored.control
    decoded = DefaultRecordBatch(stored.data)
    assert decoded.validate_crc()
    assert decoded.is_control_batch
    (record,) = decoded
    assert bytes(record.key) == bytes((0, 0, 0, int(commit)))
    assert bytes(record.value) == b"\0\0" + (12).to_bytes(4)
    assert (record.offset, record.timestamp) == (100, 1_700_000_000_000)
