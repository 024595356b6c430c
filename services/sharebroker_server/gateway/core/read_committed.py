"""Of record batches read with their aborted transactions, those that read_committed shows.

As Kafka's consumer does it (CompletedFetch): a producer's batches do not count from the first offset of its
aborted transaction to the marker that ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sharebroker_server.record_log.core.batch import HEADER_SIZE, BatchHeader, header_of

Aborted = tuple[int, int]
"""A producer's id, and the first offset of a transaction of it that was aborted."""


def headers_of(records: bytes) -> Iterable[tuple[BatchHeader, int]]:
    """The header of each batch, and where it begins."""
    position = 0
    while position + HEADER_SIZE <= len(records):
        header = header_of(records, position)
        yield header, position
        position += header.size


def shown(records: bytes, aborted: Sequence[Aborted]) -> bytes:
    """The batches with records that count: no markers, none of an aborted transaction."""
    waiting = sorted(aborted, key=lambda one: one[1], reverse=True)
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
