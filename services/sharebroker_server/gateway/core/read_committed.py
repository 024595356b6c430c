"""Removes the batches of aborted transactions from fetched record batches.

As in Kafka's consumer (CompletedFetch), a producer's batches are skipped from the first offset of its aborted
transaction to the marker that ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sharebroker_server.record_log.core.batch import HEADER_SIZE, BatchHeader, header_of

Aborted = tuple[int, int]
"""A producer id, and the first offset of an aborted transaction of that producer."""


def headers_of(records: bytes) -> Iterable[tuple[BatchHeader, int]]:
    """The header of each batch and its position."""
    position = 0
    while position + HEADER_SIZE <= len(records):
        header = header_of(records, position)
        yield header, position
        position += header.size


def committed_batches(records: bytes, aborted: Sequence[Aborted]) -> bytes:
    """The batches without transaction markers and without those of aborted transactions."""
    waiting = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
    ending: set[int] = set()
    kept = []
    for header, position in headers_of(records):
        while waiting and waiting[-1][1] <= header.last_offset:
            ending.add(waiting.pop()[0])
        if header.control:
            ending.discard(header.producer_id)
        elif not (header.transactional and header.producer_id in ending):
            kept.append(records[position : position + header.size])
    return b"".join(kept)
