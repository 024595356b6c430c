"""Record batches that a group does not get: markers, and with read_committed aborted and open transactions.

Kafka's clients receive markers and acknowledge them as gaps; other clients receive none.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharebroker_server.record_log.core.batch import StoredBatch, header_of
from sharebroker_server.record_log.core.transactions import aborted_spans
from sharebroker_server.record_log.partition_log import PartitionLog

Span = tuple[int, int]
"""First and last offset of a record batch."""


def visible_end(log: PartitionLog, *, committed: bool) -> int:
    """The offset after the last record that the group may read."""
    return log.last_stable_offset if committed else log.log_end_offset


def hidden_spans(
    log: PartitionLog, batches: Sequence[StoredBatch], committed: bool, *, with_markers: bool
) -> list[Span]:
    """Of batches below the visible end, those that no member gets, in order."""
    hidden: list[Span] = (
        [] if with_markers else [(batch.base_offset, batch.last_offset) for batch in batches if batch.control]
    )
    if committed and batches:
        hidden += _aborted(log, batches)
        hidden.sort()
    return hidden


def _aborted(log: PartitionLog, batches: Sequence[StoredBatch]) -> list[Span]:
    aborted = log.transactions.aborted_in(batches[0].base_offset, batches[-1].last_offset + 1)
    if not aborted:
        return []
    headers = (header_of(batch.data) for batch in batches if not batch.control)
    spans = ((h.producer_id, h.base_offset, h.last_offset) for h in headers if h.transactional)
    return list(aborted_spans(spans, aborted))
