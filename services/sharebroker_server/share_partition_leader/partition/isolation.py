"""What a group does not see of a log: with read_committed what is not committed, and markers.

Kafka hands markers out, and its clients acknowledge them as gaps; who does not know of them gets none.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharebroker_server.record_log.core.batch import StoredBatch, header_of
from sharebroker_server.record_log.core.transactions import aborted_spans
from sharebroker_server.record_log.partition_log import PartitionLog

Span = tuple[int, int]
"""First and last offset of a batch."""


def visible_end(log: PartitionLog, *, committed: bool) -> int:
    """The offset behind the last record that may be read."""
    return log.last_stable_offset if committed else log.log_end_offset


def hidden_spans(
    log: PartitionLog, batches: Sequence[StoredBatch], committed: bool, *, with_markers: bool
) -> list[Span]:
    """Of batches below the visible end, those that are not to be handed out, in order."""
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
