"""Appends that wait for the store, and the groups in which they are written (group commit)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import (
    LEADER_EPOCH,
    BatchHeader,
    Buffer,
    StoredBatch,
    assign,
    spanned,
)
from sharebroker_server.record_log.core.message_ids import (
    MessageIds,
    Original,
    repeated_offsets,
    repeated_ranges,
    repeated_run,
)
from sharebroker_server.record_log.core.schedules import Scheduled, ranges_of
from sharebroker_server.record_log.core.share_index import IndexedRecord, state_batch
from sharebroker_server.record_log.core.snapshots import snapshots_of
from sharebroker_server.record_log.core.transactions import Draft, marker_batch
from sharebroker_server.record_log.lifecycle import RETRY_AFTER
from sharebroker_server.record_log.port import NO_SNAPSHOTS

if TYPE_CHECKING:
    from sharebroker_server.record_log.core.notes import Note, NotesDraft
    from sharebroker_server.record_log.core.producers import Marker, Verified


class Appended(NamedTuple):
    """The offsets of a produce request; `log_append_time` in ms, -1 unless the topic uses LogAppendTime.

    `offsets` has the offset of each record if these are not consecutive.
    """

    base_offset: int
    last_offset: int
    log_append_time: int
    offsets: tuple[int, ...] = ()

    def offset_of(self, place: int) -> int:
        """Returns the offset of a record by its place in the request."""
        return self.offsets[place] if self.offsets else self.base_offset + place


def _future() -> asyncio.Future[Appended]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class RecordsAppend:
    """The record batches of a produce request, and the message ids and delivery times of their records.

    `duplicate_offsets`: the response has an offset for each record, not only for the first one. `result`
    resolves when they are durable, or fails with the reason why they are not.
    """

    data: Buffer
    headers: list[BatchHeader]
    verified: Verified | None
    ids: MessageIds = ()
    times: Sequence[int] = ()
    duplicate_offsets: bool = False
    result: asyncio.Future[Appended] = field(default_factory=_future)

    @property
    def size(self) -> int:
        """The number of bytes that it holds."""
        return len(self.data)

    def add_to(self, group: Group) -> tuple[Sequence[StoredBatch], Appended]:
        """Returns its batches with the next offsets of the group; no batches if the log has them already.

        Raises:
            KafkaError: the append is invalid.
        """
        stamp = group.log_append_ms
        first = spanned(self.headers)
        # The limits do not apply to a batch that its producer sends again.
        new = first.producer_id < 0 or group.draft.repeated(first) is None
        repeats = None
        if new and self.ids and group.draft.ids is not None:
            repeats = Repeats.of(group, first, self.ids)
        original = None if repeats is None else repeats.original
        if repeats is not None and original is None and self.duplicate_offsets and first.producer_id < 0:
            offsets = repeats.offsets()
            if offsets:
                return (), Appended(min(offsets), max(offsets), -1, offsets)
        scheduled: Sequence[Scheduled] = ()
        if new and self.times and original is None:
            scheduled = ranges_of(self.times, group.offset, group.now_ms)
            group.draft.check_schedules(len(scheduled), group.now_ms)
        if first.producer_id >= 0:
            # The sequence numbers of a batch that is not appended count: the next batch continues them.
            offset = group.offset if original is None else original.offset
            earlier = group.draft.append(first, offset, group.now_ms, self.verified)
            if earlier is not None:
                return (), Appended(
                    earlier.base_offset, earlier.last_offset, -1 if stamp is None else earlier.timestamp
                )
        if original is not None:
            last = original.offset + len(self.ids) - 1
            return (), Appended(original.offset, last, -1 if stamp is None else original.timestamp)
        group.draft.scheduled += scheduled
        batches = assign(self.data, self.headers, group.offset, LEADER_EPOCH, stamp)
        if repeats is not None:
            repeats.add_to(group.draft, batches, self.ids)
        return batches, Appended(group.offset, batches[-1].last_offset, -1 if stamp is None else stamp)


MAX_REPEATED_RANGES: Final = 1_000
"""The number of separate ranges of duplicates in one append; each is stored until retention deletes it."""


class Repeats:
    """The records of an append whose message ids the log has already."""

    __slots__ = ("_originals", "_ranges", "_transaction", "original")

    def __init__(
        self, originals: Sequence[Original | None], ranges: Sequence[tuple[int, int]], transaction: int
    ) -> None:
        self._originals = originals
        self._ranges = ranges
        self._transaction = transaction
        self.original = repeated_run(originals) if transaction < 0 else None
        """The original of the first record, if the append repeats consecutive records and nothing else.

        A transaction appends its records in any case: it has a marker, and may be aborted.
        """

    @classmethod
    def of(cls, group: Group, first: BatchHeader, ids: MessageIds) -> Repeats:
        """Finds the duplicates of an append at the end of a group. Raises RECORD_LIST_TOO_LARGE."""
        transaction = first.producer_id if first.transactional else -1
        assert group.draft.ids is not None
        originals = group.draft.ids.originals(ids, transaction, group.offset)
        ranges = repeated_ranges(originals, group.offset)
        if len(ranges) > MAX_REPEATED_RANGES:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"The append has {len(ranges)} separate ranges of duplicates; {MAX_REPEATED_RANGES} are "
                "allowed. Send fewer records at once.",
            )
        return cls(originals, ranges, transaction)

    def offsets(self) -> tuple[int, ...]:
        """Returns the offset of each original if all records are repeated, in any order."""
        return repeated_offsets(self._originals)

    def add_to(self, draft: Draft, batches: Sequence[StoredBatch], ids: MessageIds) -> None:
        """Adds the batches of the append: new ids, and ranges that share groups skip."""
        draft.skip(self._ranges)
        assert draft.ids is not None
        begin = batches[0].base_offset
        for batch in batches:
            part = slice(batch.base_offset - begin, batch.last_offset + 1 - begin)
            repeated = [original is not None for original in self._originals[part]]
            draft.ids.add(batch.base_offset, ids[part], batch.max_timestamp, repeated, self._transaction)


@dataclass(slots=True)
class MarkerAppend:
    """A transaction marker; it does not count as bytes that wait."""

    marker: Marker
    result: asyncio.Future[Appended] = field(default_factory=_future)
    size: int = 0

    def add_to(self, group: Group) -> tuple[Sequence[StoredBatch], Appended]:
        """Returns the marker's batch. Raises KafkaError."""
        group.draft.end(self.marker, group.offset, group.now_ms)
        batch = marker_batch(self.marker, group.offset, LEADER_EPOCH, group.now_ms)
        return (batch,), Appended(group.offset, group.offset, -1)


@dataclass(slots=True)
class RecallAppend:
    """A recall of a scheduled record; it writes a snapshot only. `now_ms` returns the time of the store."""

    offset: int
    now_ms: Callable[[], float]
    result: asyncio.Future[Appended] = field(default_factory=_future)
    size: int = 0

    def add_to(self, group: Group) -> tuple[Sequence[StoredBatch], Appended]:
        """Adds the recall. Raises KafkaError."""
        group.draft.recall(self.offset, self.now_ms())
        return (), Appended(self.offset, self.offset, -1)


class Noted(NamedTuple):
    """What an append with notes writes: validated record batches (empty: none), and changed notes."""

    data: Buffer
    headers: list[BatchHeader]
    notes: Mapping[str, Note]


@dataclass(slots=True)
class NotedAppend:
    """An append whose records depend on notes, or that writes notes.

    `decide` receives the notes after the earlier appends and the offset of its first record. It may raise
    KafkaError. It runs when the group is built, so that no other append changes the notes in between.
    """

    decide: Callable[[NotesDraft, int], Noted]
    size: int
    result: asyncio.Future[Appended] = field(default_factory=_future)

    def add_to(self, group: Group) -> tuple[Sequence[StoredBatch], Appended]:
        """Returns its batches with the next offsets of the group. Raises KafkaError."""
        notes = group.draft.draft_notes(group.now_ms)
        data, headers, changes = self.decide(notes, group.offset)
        notes.set(changes)
        if not headers:
            return (), Appended(group.offset, group.offset - 1, -1)
        stamp = group.log_append_ms
        batches = assign(data, headers, group.offset, LEADER_EPOCH, stamp)
        return batches, Appended(group.offset, batches[-1].last_offset, -1 if stamp is None else stamp)


@dataclass(slots=True)
class StateAppend:
    """Control records with the state of share groups, at least one; they do not count as bytes that wait."""

    records: Sequence[IndexedRecord]
    result: asyncio.Future[Appended] = field(default_factory=_future)
    size: int = 0

    def add_to(self, group: Group) -> tuple[Sequence[StoredBatch], Appended]:
        """Returns the control batch, and adds its records to the index."""
        batch, entries = state_batch(self.records, group.offset, group.records_end)
        group.draft.share_entries += entries
        return (batch,), Appended(batch.base_offset, batch.last_offset, -1)


Append: TypeAlias = RecordsAppend | MarkerAppend | RecallAppend | NotedAppend | StateAppend


class Group:
    """The appends of one write to the store. `offset` is the next one to assign; times are in ms.

    `records_end` is the offset after the last batch for readers.
    """

    __slots__ = ("_outcomes", "batches", "draft", "log_append_ms", "now_ms", "offset", "records_end")

    def __init__(
        self, draft: Draft, offset: int, now_ms: int, log_append_ms: int | None, records_end: int
    ) -> None:
        self.draft = draft
        self.offset = offset
        self.records_end = records_end
        self.now_ms = now_ms
        self.log_append_ms = log_append_ms
        self.batches: list[StoredBatch] = []
        self._outcomes: list[tuple[Append, Appended | KafkaError]] = []

    def add(self, append: Append) -> None:
        """Adds an append; a rejected one gets its error when the group completes."""
        try:
            batches, appended = append.add_to(self)
        except KafkaError as error:
            self._outcomes.append((append, error))
            return
        self.batches += batches
        if batches:
            self.offset = appended.last_offset + 1
            if not batches[-1].has_share_state:
                self.records_end = self.offset
        self._outcomes.append((append, appended))

    @property
    def snapshots(self) -> Mapping[str, bytes]:
        """The producer snapshots to store with the batches."""
        draft = self.draft
        changed = draft.producers or draft.duplicates or draft.scheduled or draft.recalled or draft.notes
        return snapshots_of(draft) if changed or draft.share_entries else NO_SNAPSHOTS

    @property
    def changes_store(self) -> bool:
        """Whether there is anything to write."""
        draft = self.draft
        return bool(self.batches or draft.producers or draft.recalled or draft.notes)

    @property
    def has_only_state(self) -> bool:
        """Whether readers receive nothing of it: all batches have state of share groups."""
        return bool(self.batches) and all(batch.has_share_state for batch in self.batches)

    @property
    def beyond_limit(self) -> bool:
        """Whether a full store must accept the group: it has no records.

        Consumers cannot read past an open transaction, and cannot finish records whose acknowledgement is not
        stored, so that no record would ever be deleted.
        """
        return all(batch.control for batch in self.batches)

    def complete(self) -> None:
        """Resolves the appends: all batches are durable."""
        for append, outcome in self._outcomes:
            if isinstance(outcome, KafkaError):
                fail(append, outcome)
            elif not append.result.done():
                append.result.set_result(outcome)

    def fail(self, error: KafkaError) -> None:
        """Fails every append: none is known to be durable, and later ones depend on earlier ones."""
        for append, _ in self._outcomes:
            fail(append, error)


class AppendQueue:
    """The appends that wait for the current group."""

    __slots__ = ("_bytes", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[Append] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, append: Append, max_bytes: int) -> None:
        """Adds an append; raises THROTTLING_QUOTA_EXCEEDED if more than `max_bytes` would wait."""
        if self._waiting and self._bytes + append.size > max_bytes:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"The append queue is full ({self._bytes} bytes).",
                retry_after=RETRY_AFTER,
            )
        self._waiting.append(append)
        self._bytes += append.size

    def pop_group(self, max_bytes: int, *, separate: bool = False) -> list[Append]:
        """Removes the oldest appends, in order, until they have `max_bytes`.

        `separate` ends the group where markers follow records, or records markers.
        """
        group: list[Append] = []
        size = 0
        while self._waiting and size < max_bytes:
            if separate and group and type(self._waiting[0]) is not type(group[0]):
                break
            append = self._waiting.popleft()
            size += append.size
            group.append(append)
        self._bytes -= size
        return group

    def fail_all(self, error: KafkaError) -> None:
        """Fails all waiting appends; none of them was sent to the store."""
        waiting, self._waiting = self._waiting, deque()
        self._bytes = 0
        for append in waiting:
            fail(append, error)


def fail(append: Append, error: KafkaError) -> None:
    """Fails an append, unless its caller was cancelled."""
    if not append.result.done():
        append.result.set_exception(error)
