"""Runs of records are found by bisection; here by a check of each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharebroker.consumer.accumulator import Accumulator
from sharebroker_protocol.records.batches import decode
from sharebroker_protocol.records.record import AcquiredRecords, Record, spans
from tests.unit.client.batches import acquisition, batch


def naive(records: list[Record]) -> list[tuple[AcquiredRecords, int, int]]:
    runs: list[tuple[AcquiredRecords, int, int]] = []
    for record in records:
        if runs and runs[-1][0] is record.acquisition and runs[-1][2] + 1 == record.offset:
            runs[-1] = (*runs[-1][:2], record.offset)
        else:
            runs.append((record.acquisition, record.offset, record.offset))
    return runs


@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.booleans(), min_size=1, max_size=40)), max_size=6))
def test_spans_equal_naive_runs(acquisitions: list[tuple[int, list[bool]]]) -> None:
    accumulator = Accumulator(lambda: None)
    records: list[Record] = []
    base = 0
    for gap, kept in acquisitions:
        base += gap
        acquired = acquisition(base, base + len(kept) - 1, accumulator)
        found = decode(batch(base, [b"v"] * len(kept)), [acquired]).records
        records += [record for record, keep in zip(found, kept, strict=True) if keep]
        base += len(kept)
    assert list(spans(records)) == naive(records)
