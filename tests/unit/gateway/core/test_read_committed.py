"""Removal of aborted transactions from fetched batches."""

from __future__ import annotations

from sharebroker_server.gateway.core.read_committed import committed_batches, headers_of
from sharebroker_server.record_log.core.batch import assign, parse_headers
from sharebroker_server.record_log.core.producers import Marker
from sharebroker_server.record_log.core.transactions import marker_batch
from tests.unit.record_log.batches import LIMIT, batch


def spans(records: bytes) -> list[tuple[int, int]]:
    return [(header.base_offset, header.last_offset) for header, _ in headers_of(records)]


def log(*parts: tuple[int, int | bool]) -> bytes:
    """Batches of two records by a transaction of a producer (-1: by none), or its marker (True: commit)."""
    offset, found = 0, b""
    for producer, what in parts:
        if isinstance(what, bool):
            stored = marker_batch(Marker(producer, 0, 0, what), offset, 1, 1000)
        else:
            data = batch(2, producer=(producer, 0, what) if producer >= 0 else (-1, -1, -1),
                         transactional=producer >= 0)  # fmt: skip
            stored = assign(data, parse_headers(data, LIMIT), offset, 1)[0]
        found, offset = found + stored.data, stored.last_offset + 1
    return found


def test_headers_are_read_in_order() -> None:
    assert spans(log((-1, 0), (1, 0), (1, False))) == [(0, 1), (2, 3), (4, 4)]
    assert spans(b"") == []


def test_markers_and_aborted_batches_are_removed() -> None:
    records = log((1, 0), (2, 0), (-1, 0), (1, False), (2, True), (1, 2), (1, True))
    assert spans(committed_batches(records, [(1, 0)])) == [(2, 3), (4, 5), (8, 9)]
    assert spans(committed_batches(records, [])) == [(0, 1), (2, 3), (4, 5), (8, 9)]


def test_two_aborted_transactions_of_one_producer() -> None:
    records = log((1, 0), (1, False), (1, 2), (1, True), (1, 4), (1, False))
    assert spans(committed_batches(records, [(1, 6), (1, 0)])) == [(3, 4)]


def test_aborted_transaction_that_began_before_the_fetched_batches() -> None:
    records = log((-1, 0), (1, 0), (1, 2), (1, False))
    behind = records[len(log((-1, 0), (1, 0))) :]
    assert spans(committed_batches(behind, [(1, 2)])) == []
