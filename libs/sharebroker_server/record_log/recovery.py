"""What a leader learns from the store when it opens a log, and what it gives a store that lost something."""

from __future__ import annotations

import logging
from typing import Final

from sharebroker_server.record_log.core import producer_snapshots
from sharebroker_server.record_log.core.log_state import Limits, LogView
from sharebroker_server.record_log.core.transactions import Transactions
from sharebroker_server.record_log.port import RecordStore

_log = logging.getLogger(__name__)

_READ_BYTES: Final = 1 << 20


async def load(
    store: RecordStore, partition: str, known_end: int, limits: Limits, now_ms: int
) -> tuple[LogView, Transactions]:
    """Bounds, index, notes and the batches no index row covers; the log ends at `known_end` at least.

    Raises:
        LogUnavailable: the store cannot be read.
        ValueError: a note of a later version.
    """
    bounds = await store.bounds(partition)
    segments = await store.segments(partition)
    transactions = producer_snapshots.load(await store.notes(partition))
    log_end = max(bounds.log_end_offset, known_end)
    view = LogView(bounds.log_start_offset, log_end, segments, limits)
    offset = view.unread_from
    while offset < bounds.log_end_offset and (batches := await store.read(partition, offset, _READ_BYTES)):
        for batch in batches:
            view.add(batch, now_ms)
        offset = batches[-1].last_offset + 1
    return view, transactions


async def restore(
    store: RecordStore, partition: str, epoch: int, view: LogView, transactions: Transactions
) -> None:
    """Append what memory has behind the store's end, and what is known of producers.

    Index rows are counted again when the log is read next. What memory has no more stays a gap.

    Raises:
        LogError: as `RecordStore.append` and `bounds`.
    """
    end = (await store.bounds(partition)).log_end_offset
    lost = [batch for batch in view.tail.batches() if batch.base_offset >= end]
    if lost:
        _log.warning(
            "%s: the store ends at offset %d, not at %d; what memory has from %d on is written again",
            *(partition, end, view.log_end_offset, lost[0].base_offset),
        )
        await store.append(partition, epoch, lost, (), producer_snapshots.of(transactions))
