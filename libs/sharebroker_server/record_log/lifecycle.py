"""The phases of a leader's log, its load from the store, and the recovery of batches that the store lost."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import Turns
from sharebroker_server.record_log.core.addressed import copies_in
from sharebroker_server.record_log.core.batch import StoredBatch, header_of
from sharebroker_server.record_log.core.log_state import LogState
from sharebroker_server.record_log.core.snapshots import load_snapshots, lost_snapshots
from sharebroker_server.record_log.core.transactions import Draft, Transactions, commits
from sharebroker_server.record_log.port import RecordStore
from sharebroker_server.record_log.record_validation import LogSettings, stored_ids
from sharebroker_server.stream_log.port import LogFull

if TYPE_CHECKING:
    from sharebroker_server.record_log.core.message_ids import MessageIds

_log = structlog.get_logger()

RETRY_AFTER: Final = 0.05
"""Seconds after which a rejected request may be retried."""

RETRY_WHEN_FULL: Final = 1.0
"""Seconds after which a request may be retried that a full store rejected."""

FULL: Final = (
    "The store is full, and consuming continues: shorten retention.ms or retention.bytes, delete records or "
    "topics, free disk space, or raise --max-memory (of your own Redis: maxmemory)."
)

FIRST_BACKOFF: Final = 0.05
"""Seconds between the first two attempts to recover; doubled with each further attempt."""

MAX_BACKOFF: Final = 1.0
"""Maximum seconds between two attempts to recover."""

READ_BYTES: Final = 1 << 20
"""Bytes of one read, where batch after batch is read."""


class LogPhase(Enum):
    """OPEN accepts appends; RECOVERING only reads, until the lease is claimed again; CLOSED rejects all."""

    OPEN = "open"
    RECOVERING = "recovering"
    CLOSED = "closed"


TRANSITIONS: Final[Mapping[LogPhase, frozenset[LogPhase]]] = {
    LogPhase.OPEN: frozenset({LogPhase.RECOVERING, LogPhase.CLOSED}),
    LogPhase.RECOVERING: frozenset({LogPhase.OPEN, LogPhase.CLOSED}),
    LogPhase.CLOSED: frozenset(),
}
"""The legal transitions; any other is ignored."""


def unavailable(partition: str, state: LogPhase) -> KafkaError:
    """Returns the error of an operation that the current phase does not permit."""
    if state is LogPhase.CLOSED:
        return not_leader(partition)
    return storage_error("the log is recovering from an append of unknown outcome")


def not_leader(partition: str) -> KafkaError:
    """Returns the error of a partition that another process leads, or may lead."""
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"This broker does not lead {partition}.")


def storage_error(reason: object) -> KafkaError:
    """Returns the error of a failed store operation."""
    if isinstance(reason, LogFull):
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{FULL} ({reason})", retry_after=RETRY_WHEN_FULL)
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The store failed: {reason}", retry_after=RETRY_AFTER)


async def load(
    store: RecordStore, partition: str, known_end: int, settings: LogSettings, now_ms: int
) -> tuple[LogState, Transactions]:
    """Reads bounds, segments, producer snapshots and the batches after the last closed segment.

    The log ends at `known_end` at least. Message ids are read from the batches of `message.dedup.window.ms`.

    Raises:
        LogUnavailable: the store cannot be read.
        ValueError: a producer snapshot is of a later version.
    """
    bounds = await store.bounds(partition)
    segments = await store.segments(partition)
    transactions = load_snapshots(await store.snapshots(partition))
    log_end = max(bounds.log_end_offset, known_end)
    state = LogState(bounds.log_start_offset, log_end, segments, settings.limits)
    offset = state.unread_from
    while offset < bounds.log_end_offset and (batches := await store.read(partition, offset, READ_BYTES)):
        for batch in batches:
            state.add(batch, now_ms)
        offset = batches[-1].last_offset + 1
    if transactions.share.newest + 1 == bounds.log_end_offset > 0:
        state.hide_end(transactions.share.records_end)
    if settings.dedup_window_ms:
        start = state.index.first_since(now_ms - settings.dedup_window_ms)
        if start is not None:
            await _load_ids(
                store, partition, max(start, state.log_start_offset), transactions, settings, now_ms
            )
    return state, transactions


async def _load_ids(
    store: RecordStore,
    partition: str,
    offset: int,
    transactions: Transactions,
    settings: LogSettings,
    now_ms: int,
) -> None:
    """Reads the message ids of the batches from `offset` on. Raises LogUnavailable."""
    turns = Turns()
    while batches := await store.read(partition, offset, READ_BYTES):
        draft = transactions.draft(settings.dedup_window_ms, now_ms)
        for batch in batches:
            ids = () if batch.control else await turns.run(stored_ids(batch))
            _replay_ids(draft, transactions, batch, ids)
            await turns.next()
        transactions.commit(draft)
        offset = batches[-1].last_offset + 1


def _replay_ids(draft: Draft, transactions: Transactions, batch: StoredBatch, ids: MessageIds) -> None:
    """Adds the ids of a stored batch as its append did: those of duplicates and copies do not count."""
    header = header_of(batch.data)
    if draft.ids is None or batch.has_share_state:
        return
    if batch.control:
        draft.ids.end(header.producer_id, commit=commits(batch))
    elif ids:
        repeated = [False] * len(ids)
        begin, end = batch.base_offset, batch.last_offset + 1
        copies = copies_in(transactions.notes, begin, end)
        for first, last in (*transactions.duplicates_in(begin, end), *copies):
            for offset in range(max(first, batch.base_offset), min(last, batch.last_offset) + 1):
                repeated[offset - batch.base_offset] = True
        transaction = header.producer_id if header.transactional else -1
        draft.ids.add(batch.base_offset, ids, batch.max_timestamp, repeated, transaction)


async def restore(
    store: RecordStore, partition: str, epoch: int, state: LogState, transactions: Transactions
) -> int:
    """Appends the batches and the producer snapshots that memory has and the store lost.

    Returns the offset at which the store ended. Index rows are counted again when the log is loaded next.
    Batches that memory no longer has remain a gap.

    Raises:
        LogError: as `RecordStore.append` and `bounds`.
        ValueError: a producer snapshot is of a later version.
    """
    end = (await store.bounds(partition)).log_end_offset
    lost = [batch for batch in state.hot_cache.batches() if batch.base_offset >= end]
    if lost:
        _log.warning(
            "store lost records; restoring them from memory",
            partition=partition,
            store_end=end,
            log_end=state.log_end_offset,
            restored_from=lost[0].base_offset,
        )
    gap = range(end, state.hot_cache.start)
    snapshots = lost_snapshots(transactions, await store.snapshots(partition), gap)
    if lost or snapshots:
        # The store had accepted them: it must accept them again while it is full, so that retention can run.
        await store.append(partition, epoch, lost, (), snapshots, beyond_limit=True)
    return end
