"""Loads the stored state of a share-partition, and translates the share coordinator's errors."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from enum import Enum, auto
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import FINISHED, AcquiredRange, SharePartitionKey, StateWrite
from sharebroker_server.leases import names
from sharebroker_server.persister.port import Persister, SharePartitionState
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.log_reader import LogReader, Span
from sharebroker_server.share_partition_leader.core.events import LoadedState

if TYPE_CHECKING:
    from sharebroker_server.config.group import GroupConfig

_log = structlog.get_logger()

_SEEN_BY_CONSUMERS = {
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""Errors of the share coordinator as consumers see them (Kafka: SharePartition.fetchPersisterError)."""


class NoStateError(KafkaError):
    """The group coordinator has not initialised the state, or deleted it: no member holds records."""


async def load_state(persister: Persister, log: LogReader, group_id: str, config: GroupConfig) -> LoadedState:
    """Reads the state, and resolves `share.auto.offset.reset` if no start offset is set.

    The start offset is then to be stored before a record from it on is delivered, unless it is the earliest:
    resolved again, it would be another one.

    Raises NoStateError with LEADER_NOT_AVAILABLE if the state is not initialised yet; other KafkaErrors:
    OFFSET_NOT_AVAILABLE if all records are older than `by_duration`, and the persister's errors.
    """
    try:
        state = await _read(persister, share_key(group_id, log), log)
    except KafkaError as error:
        raise translated(error, ErrorCode.LEADER_NOT_AVAILABLE) from error
    start, stored = state.start_offset, True
    if start < 0:
        await log.refresh()
        stored = config.offset_reset.strategy == "earliest"
        start = await _reset(log, config)
        if config.offset_reset.strategy == "latest" and start > log.log_start_offset:
            _log.info(
                "group starts at the end of a partition with records",
                group=group_id,
                log=log.partition,
                offset=start,
                records=start - log.log_start_offset,
            )
    return LoadedState(
        state.state_epoch,
        log.epoch,
        start,
        state.batches,
        kept_since=state.kept_since,
        start_stored=stored,
    )


async def _read(persister: Persister, key: SharePartitionKey, log: LogReader) -> SharePartitionState:
    """Reads the state, without what refers to records that the log lost.

    That is removed under the leader epoch of the stored state. Only then the epoch of this leader is stored:
    a leader that finds it does not look for lost records again.
    """
    if not log.loses_records:
        return await persister.read(key, log.epoch)
    loaded_under = (await persister.read_summary(key)).leader_epoch
    if not loaded_under:  # no leader has loaded it: it only has a start offset, if any
        return await persister.read(key, log.epoch)
    void: int | None = None
    for epoch in (loaded_under, log.epoch):  # the former leader may have written in between
        state = await persister.read(key, epoch)
        end = state.batches[-1].last + 1 if state.batches else state.start_offset
        lost = await log.void_from(loaded_under, end)
        void = lost if void is None else min(void, lost if lost is not None else void)
        if void is not None and void < end:
            state = without_void(state, void)
            finished = sum(last - first + 1 for first, last, kind, *_ in state.batches if kind in FINISHED)
            write = StateWrite(
                state.state_epoch, epoch, state.start_offset, finished, state.batches, replaces=True
            )
            await persister.write(key, write)
            _log.error(
                "share state referred to records that the log lost",
                group=key.group_id,
                log=log.partition,
                first_offset=void,
                end_offset=end,
            )
    return state


def without_void(state: SharePartitionState, void: int) -> SharePartitionState:
    """Returns the state up to an offset from which its log lost the records."""
    batches = tuple(
        batch._replace(last=min(batch.last, void - 1)) for batch in state.batches if batch.first < void
    )
    return state._replace(start_offset=min(state.start_offset, void), batches=batches)


async def is_changed(persister: Persister, key: SharePartitionKey, loaded_under: tuple[int, int]) -> bool:
    """Whether the stored state differs from the one loaded under this state epoch and leader epoch.

    No leader has loaded a state that was initialised again. False if the coordinator cannot be reached:
    writes to an old state are fenced.
    """
    try:
        stored = await persister.read_summary(key)
    except KafkaError as error:
        return error.code is ErrorCode.INVALID_REQUEST
    state_epoch, leader_epoch = loaded_under
    return stored.state_epoch != state_epoch or stored.leader_epoch < leader_epoch


def share_key(group_id: str, log: LogReader) -> SharePartitionKey:
    """The key of a group's state of a partition."""
    return SharePartitionKey(group_id, *names.topic_partition(log.partition))


async def _reset(log: LogReader, config: GroupConfig) -> int:
    reset = config.offset_reset
    if reset.strategy == "earliest":
        return log.log_start_offset
    if reset.strategy == "latest":
        return log.records_end_offset
    found = await log.offset_for_timestamp(int(now() * 1000) - reset.duration_ms)
    if found is None:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE, f"No record is young enough for {config.share_auto_offset_reset}."
        )
    return found.offset


def translated(
    error: KafkaError, uninitialised: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
) -> KafkaError:
    """Returns a share coordinator's error as consumers may see it.

    INVALID_REQUEST means that the state is not initialised or was deleted: `uninitialised`.
    """
    if error.code is ErrorCode.INVALID_REQUEST:
        return NoStateError(
            uninitialised, "The group has no state of this partition.", metadata=error.metadata
        )
    code = _SEEN_BY_CONSUMERS.get(error.code, error.code)
    return KafkaError(code, error.message, metadata=error.metadata, retry_after=error.retry_after)


_NEVER: Final = float("inf")


def offsets_below(ranges: Iterable[Span], offset: int) -> int:
    """Returns how many offsets of ranges (last inclusive) lie below an offset."""
    return sum(min(last, offset - 1) - first + 1 for first, last in ranges if first < offset)


def visible_end(log: LogReader, *, committed: bool) -> int:
    """The offset after the last record that the group may read."""
    return log.last_stable_offset if committed else log.records_end_offset


def hidden_spans(
    log: LogReader, batches: Sequence[StoredBatch], committed: bool, group_id: str, *, with_markers: bool
) -> list[Span]:
    """Returns batches and records that the group does not receive, ascending.

    Records are hidden that are duplicates, recalled, or addressed to another group.
    """
    hidden: list[Span] = (
        [] if with_markers else [(batch.base_offset, batch.last_offset) for batch in batches if batch.control]
    )
    if committed and batches:
        hidden += log.aborted_batches(batches)
        hidden.sort()
    if log.transactions.has_skipped and batches:
        hidden += _skipped(log, batches, frozenset(hidden), group_id)
        hidden.sort()
    return hidden


def with_share_state(spans: Sequence[Span], hidden: Sequence[Span]) -> tuple[list[Span], list[Span]]:
    """Returns both, ascending, with the offsets between spans: those of share state, which is not read."""
    between = [(last + 1, first - 1) for (_, last), (first, _) in pairwise(spans) if last + 1 < first]
    return (sorted((*spans, *between)), sorted((*hidden, *between))) if between else ([*spans], [*hidden])


def cut_after(spans: Sequence[Span], last: int) -> list[Span]:
    """Returns the parts of the spans up to the offset `last`."""
    return [(first, min(end, last)) for first, end in spans if first <= last]


def split_expired(
    batches: Sequence[StoredBatch],
    oldest_ms: float,
    latest: Callable[[int, int], float],
    *,
    adjacent: bool = False,
) -> tuple[list[Span], list[Span], list[StoredBatch]]:
    """Returns the spans of all batches, the spans of those that expired, and the batches that did not.

    A batch expires as a whole once all its timestamps and delivery times are below `oldest_ms`; without a
    timestamp (-1) it does not. `latest` returns the latest delivery time of offsets (ms). Neighbours that
    expired have one span, so that one acquisition archives them and a gap between them; with `adjacent` only
    those without a gap.
    """
    spans: list[Span] = []
    expired: list[Span] = []
    others: list[StoredBatch] = []
    for batch in batches:
        first, last = batch.base_offset, batch.last_offset
        if not 0 <= batch.max_timestamp < oldest_ms or latest(first, last) >= oldest_ms:
            others.append(batch)
        else:
            joins = expired and expired[-1] == spans[-1] and (not adjacent or spans[-1][1] + 1 == first)
            if joins:
                first = expired.pop()[0]
                spans.pop()
            expired.append((first, last))
        spans.append((first, last))
    return spans, expired, others


def _skipped(
    log: LogReader, batches: Sequence[StoredBatch], hidden: Set[Span], group_id: str
) -> Iterator[Span]:
    """Yields the records of each batch that are hidden, unless the batch is hidden as a whole."""
    transactions = log.transactions
    for batch in batches:
        begin, end = batch.base_offset, batch.last_offset
        if (begin, end) in hidden:
            continue
        for first, last in transactions.skipped_in(begin, end + 1):
            yield max(first, begin), min(last, end)
        for first, last in transactions.for_others(group_id, begin, end + 1):
            yield max(first, begin), min(last, end)


def latest_delivery(log: LogReader, group_id: str) -> Callable[[int, int], float]:
    """Returns the function that `split_expired` calls; records for other groups do not expire in this one."""
    transactions = log.transactions
    latest = transactions.schedules.latest_in
    if not transactions.notes.attached:
        return latest

    def latest_in(first: int, last: int) -> float:
        for_others = next(transactions.for_others(group_id, first, last + 1), None)
        return latest(first, last) if for_others is None else _NEVER

    return latest_in


def separated(spans: Sequence[Span], hidden: Sequence[Span], start: int) -> list[Span]:
    """Returns the spans of batches from the offset `start` on, cut where hidden records begin and end."""
    cuts = sorted({first for first, _ in hidden} | {last + 1 for _, last in hidden})
    pieces = []
    for first, last in spans:
        for cut in cuts[bisect_right(cuts, first) : bisect_right(cuts, last)]:
            pieces.append((first, cut - 1))
            first = cut
        pieces.append((first, last))
    return [piece for piece in pieces if piece[1] >= start]


class Fetched(NamedTuple):
    """Ranges that a member acquired, and the record batches that hold them."""

    acquired: Sequence[AcquiredRange]
    records: bytes

    @property
    def offsets(self) -> int:
        """The number of acquired offsets."""
        return sum(item.last - item.first + 1 for item in self.acquired)


class NotFetched(Enum):
    """Why nothing was acquired."""

    NO_RECORDS = auto()
    """No record is available; an availability listener is notified when that may have changed."""
    NOT_CACHED = auto()
    """The records are not in the hot cache; `acquire_uncached` reads them from the store."""


def bytes_of(batches: Sequence[StoredBatch], acquired: Sequence[AcquiredRange]) -> bytes:
    """Returns the record batches that have a record in the acquired ranges; both ascend."""
    if len(acquired) == 1:
        first, last = acquired[0][:2]
        needed = [b.data for b in batches if b.last_offset >= first and b.base_offset <= last]
    else:
        needed = list(_needed(batches, acquired))
    return needed[0] if len(needed) == 1 else b"".join(needed)


def _needed(batches: Sequence[StoredBatch], acquired: Sequence[AcquiredRange]) -> Iterator[bytes]:
    ranges = iter(acquired)
    current = next(ranges)
    for batch in batches:
        while current.last < batch.base_offset:
            following = next(ranges, None)
            if following is None:
                return
            current = following
        if current.first <= batch.last_offset:
            yield batch.data
