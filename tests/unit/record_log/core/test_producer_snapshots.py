"""Stored producers and aborted transactions."""

from __future__ import annotations

import pytest

from sharebroker_server.record_log.core import producer_snapshots
from sharebroker_server.record_log.core.batch import parse_headers
from sharebroker_server.record_log.core.producers import Marker, Verified
from sharebroker_server.record_log.core.transactions import (
    Draft,
    Transactions,
)
from tests.unit.record_log.batches import LIMIT, batch


class Partition:
    """Appends to transactions, each in a draft of its own; what was written to be kept is in `notes`."""

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
        self.notes |= producer_snapshots.of_draft(draft)
        self.transactions.commit(draft)
        self.end += count

    @property
    def stable(self) -> int:
        first = self.transactions.first_unstable_offset()
        return self.end if first is None else first


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


def test_snapshots_survive_storage(partition: Partition) -> None:
    again = producer_snapshots.load(partition.notes)
    assert again.producers() == partition.transactions.producers()
    assert again.aborted_in(0, 100) == partition.transactions.aborted_in(0, 100)
    assert again.first_unstable_offset() == 2


def test_snapshot_of_an_unknown_format_is_rejected() -> None:
    with pytest.raises(ValueError, match="p7 has unknown format 9"):
        producer_snapshots.load({"p7": b"\x09"})
