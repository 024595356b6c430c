"""The transactions of a partition: open and aborted ones, the producers, and markers.

Source: Kafka's ProducerStateManager, TransactionIndex and `UnifiedLog.lastStableOffset`.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.addressed import hidden_from
from sharebroker_server.record_log.core.batch import HEADER_SIZE, BatchHeader, StoredBatch, header_of, seal
from sharebroker_server.record_log.core.message_ids import IdDraft, IdTable
from sharebroker_server.record_log.core.notes import Note, Notes, NotesDraft
from sharebroker_server.record_log.core.producers import (
    Marker,
    ProducerState,
    SentBatch,
    Verified,
    after_batch,
    after_marker,
    check_batch,
    find_repeated,
    is_open,
)
from sharebroker_server.record_log.core.schedules import Scheduled, Schedules, check_not_due
from sharebroker_server.record_log.core.sequence_gaps import SequenceGaps
from sharebroker_server.record_log.core.share_index import IndexEntry, ShareIndex


class AbortedTransaction(NamedTuple):
    """An aborted transaction from its first record to its marker, both inclusive.

    `stable_offset` was the last stable offset after it ended: transactions that end later start there or
    above.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    stable_offset: int


DUPLICATES: Final = -2
"""The producer id in the snapshot of a range of duplicates (decision 0093).

Such a snapshot has the form of an aborted transaction, so that servers without duplicates ignore it: no batch
has this producer id.
"""


RECALLED: Final = -3
"""The producer id in the snapshot of a recalled record (decision 0097)."""


class Transactions:
    """The durable producers and transactions of one partition; only drafts change them.

    `aborted` is in the order of the markers. `duplicates` are ranges of records that repeat earlier ones;
    share groups skip them. `share` finds the state of share groups in the log. `gaps` and `ids` are not
    durable.
    """

    __slots__ = ("_open", "aborted", "duplicates", "gaps", "ids", "notes", "producers", "schedules", "share")

    def __init__(
        self,
        producers: Mapping[int, ProducerState] | None = None,
        aborted: Iterable[AbortedTransaction] = (),
        schedules: Schedules | None = None,
        notes: Notes | None = None,
        share: ShareIndex | None = None,
    ) -> None:
        self.producers = dict(producers or {})
        ended = sorted(aborted, key=attrgetter("last_offset"))
        self.aborted = [each for each in ended if each.producer_id != DUPLICATES]
        self.duplicates = [each for each in ended if each.producer_id == DUPLICATES]
        self.gaps = SequenceGaps()
        self.ids = IdTable()
        self.schedules = Schedules() if schedules is None else schedules
        self.notes = Notes() if notes is None else notes
        self.share = ShareIndex() if share is None else share
        starts = {
            id_: state.transaction_start for id_, state in self.producers.items() if state.in_transaction
        }
        # Ordered by first offset, as later ones are.
        self._open = dict(sorted(starts.items(), key=lambda item: item[1]))

    def first_unstable_offset(self) -> int | None:
        """Returns the first offset of the earliest open transaction, None without one."""
        return next(iter(self._open.values()), None)

    def last_stable_offset(self, log_start: int, log_end: int) -> int:
        """Returns the limit of read_committed: the start of the earliest open transaction, or the log end."""
        first = self.first_unstable_offset()
        return log_end if first is None else max(first, log_start)

    def is_open(self, header: BatchHeader) -> bool:
        """Returns whether the batch continues a transaction that already has records here."""
        return is_open(self.producers.get(header.producer_id), header)

    def aborted_in(self, first: int, end: int) -> list[AbortedTransaction]:
        """Returns the aborted transactions with an offset in [first, end), in the order of their markers."""
        found = []
        aborted = self.aborted
        for index in range(bisect_left(aborted, first, key=attrgetter("last_offset")), len(aborted)):
            transaction = aborted[index]
            if transaction.first_offset < end:
                found.append(transaction)
            if transaction.stable_offset >= end:
                break
        return found

    def aborted_batches(self, batches: Sequence[StoredBatch]) -> list[tuple[int, int]]:
        """Returns the first and last offset of each batch of an aborted transaction; the batches ascend."""
        aborted = self.aborted_in(batches[0].base_offset, batches[-1].last_offset + 1) if batches else ()
        if not aborted:
            return []
        headers = (header_of(batch.data) for batch in batches if not batch.control)
        spans = ((h.producer_id, h.base_offset, h.last_offset) for h in headers if h.transactional)
        return list(aborted_spans(spans, aborted))

    def duplicates_in(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields the first and last offset of each range of duplicates with an offset in [first, end)."""
        for index in range(self._below(self.duplicates, first), len(self.duplicates)):
            _, start, last, _ = self.duplicates[index]
            if start >= end:
                break
            yield start, last

    @property
    def has_skipped(self) -> bool:
        """Whether there are records that share groups skip."""
        return bool(self.duplicates or self.recalled or self.notes.attached)

    def skipped_in(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields ranges with an offset in [first, end) that share groups skip: duplicates, recalled records.

        Each kind ascends.
        """
        yield from self.duplicates_in(first, end)
        for offset in self.schedules.recalled_in(first, end):
            yield offset, offset

    def for_others(self, group_id: str, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields ranges with an offset in [first, end) that are for other share groups, ascending."""
        return hidden_from(self.notes, group_id, first, end)

    @property
    def scheduled(self) -> Sequence[Scheduled]:
        """The scheduled records."""
        return self.schedules.ranges

    @property
    def recalled(self) -> Sequence[int]:
        """The offsets of recalled records."""
        return self.schedules.recalled

    @property
    def changed_notes(self) -> Iterable[tuple[str, Note]]:
        """The notes."""
        return self.notes.items()

    @property
    def share_entries(self) -> Iterable[IndexEntry]:
        """The entries of the index of share state."""
        return self.share.entries()

    def draft(self, window_ms: int = 0, now_ms: int = 0) -> Draft:
        """Returns a draft for the changes of a group of appends.

        With `window_ms` above 0 it finds records that repeat one of the last `window_ms`.
        """
        if window_ms:
            ids = IdDraft(self.ids, window_ms, now_ms)
            return Draft(self, self._open, ids)
        if self.ids:
            self.ids = IdTable()
        return Draft(self, self._open)

    def commit(self, draft: Draft) -> None:
        """Applies a draft that is durable now."""
        self.producers.update(draft.producers)
        self.aborted += draft.aborted
        self.duplicates += draft.duplicates
        if draft.scheduled:
            self.schedules.add(draft.scheduled)
        if draft.recalled:
            self.schedules.recall(draft.recalled)
        self._open = draft.open
        if draft.notes is not None:
            self.notes.commit(draft.notes)
        if draft.ids is not None:
            self.ids.commit(draft.ids)
        if draft.share_entries:
            self.share.add(draft.share_entries)

    def expired(self, before_ms: int) -> list[int]:
        """Returns the producers whose last write was before `before_ms` and that have no open transaction."""
        return [
            id_
            for id_, state in self.producers.items()
            if state.timestamp < before_ms and not state.in_transaction
        ]

    def remove_producers(self, producer_ids: Iterable[int]) -> None:
        """Removes the state of these producers."""
        for producer_id in producer_ids:
            self.producers.pop(producer_id, None)

    def ended_before(self, offset: int) -> tuple[Sequence[AbortedTransaction], Sequence[Scheduled]]:
        """Returns the aborted transactions, duplicates, and schedules whose last offset is below `offset`.

        Their records can no longer be read.
        """
        ended = [
            each for some in (self.aborted, self.duplicates) for each in some[: self._below(some, offset)]
        ]
        return ended, self.schedules.ended_before(offset)

    def drop_before(self, offset: int) -> None:
        """Removes the aborted transactions, ranges of records and notes that end below the offset."""
        for some in (self.aborted, self.duplicates):
            del some[: self._below(some, offset)]
        self.schedules.drop_before(offset)
        self.notes.remove(self.notes.attached_before(offset))

    @staticmethod
    def _below(ended: Sequence[AbortedTransaction], offset: int) -> int:
        return bisect_left(ended, offset, key=attrgetter("last_offset"))


class Draft:
    """The changes of pending appends; each append sees the changes of those before it."""

    __slots__ = (
        "_base",
        "aborted",
        "duplicates",
        "ids",
        "notes",
        "open",
        "producers",
        "recalled",
        "scheduled",
        "share_entries",
    )

    def __init__(self, base: Transactions, opened: dict[int, int], ids: IdDraft | None = None) -> None:
        self._base = base
        self.open = opened
        self.ids = ids
        self.notes: NotesDraft | None = None
        self.producers: dict[int, ProducerState] = {}
        self.aborted: list[AbortedTransaction] = []
        self.duplicates: list[AbortedTransaction] = []
        self.scheduled: list[Scheduled] = []
        self.recalled: list[int] = []
        self.share_entries: list[IndexEntry] = []

    def state(self, producer_id: int) -> ProducerState | None:
        """Returns the state of a producer after the earlier appends."""
        return self.producers.get(producer_id) or self._base.producers.get(producer_id)

    def repeated(self, header: BatchHeader) -> SentBatch | None:
        """Returns the earlier batch that a producer's batch repeats, or None."""
        return find_repeated(self.state(header.producer_id), header)

    def append(
        self, header: BatchHeader, offset: int, now_ms: int, verified: Verified | None
    ) -> SentBatch | None:
        """Adds a producer's batch at `offset`; returns the earlier batch if this one repeats it.

        Raises:
            KafkaError: as `SequenceGaps.check` and `check_batch`.
        """
        producer_id, state = header.producer_id, self.state(header.producer_id)
        earlier = find_repeated(state, header)
        if earlier is None:
            self._base.gaps.check(state, header, now_ms)
            check_batch(state, header, verified)
            state = self.producers[producer_id] = after_batch(state, header, offset, now_ms)
            if state.in_transaction and producer_id not in self.open:
                self.open = {**self.open, producer_id: offset}
        return earlier

    @property
    def changed_notes(self) -> Iterable[tuple[str, Note]]:
        """The notes of the pending appends."""
        return () if self.notes is None else self.notes.changed.items()

    def draft_notes(self, now_ms: int) -> NotesDraft:
        """Returns the notes of the pending appends, for further changes."""
        if self.notes is None:
            self.notes = NotesDraft(self._base.notes, now_ms)
        return self.notes

    def skip(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Adds ranges of duplicates: share groups do not deliver them."""
        for first, last in ranges:
            stable = next(iter(self.open.values()), last + 1)
            self.duplicates.append(AbortedTransaction(DUPLICATES, first, last, stable))

    def check_schedules(self, number: int, now_ms: int) -> None:
        """Checks whether a number of further ranges may be scheduled. Raises as `Schedules.check_room`."""
        try:
            self._base.schedules.check_room(len(self.scheduled) + number, now_ms)
        except KafkaError:
            self._base.gaps.restart()
            raise

    def recall(self, offset: int, now_ms: float) -> None:
        """Adds a recalled record; harmless if it was recalled before.

        Raises:
            KafkaError: RESOURCE_NOT_FOUND if it is not scheduled; INVALID_RECORD_STATE if its time passed.
        """
        if self._base.schedules.is_recalled(offset):
            return
        due_ms = self._base.schedules.due_of(offset)
        if not due_ms:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"No scheduled record has the offset {offset}.")
        check_not_due(offset, due_ms, now_ms)
        self.recalled.append(offset)

    def end(self, marker: Marker, offset: int, now_ms: int) -> None:
        """Adds a marker at `offset`.

        Raises:
            KafkaError: as `after_marker`.
        """
        producer_id = marker.producer_id
        self.producers[producer_id] = after_marker(self.state(producer_id), marker, offset, now_ms)
        if self.ids is not None:
            self.ids.end(producer_id, commit=marker.commit)
        if producer_id in self.open:
            start = self.open[producer_id]
            self.open = {id_: first for id_, first in self.open.items() if id_ != producer_id}
            if not marker.commit:
                stable = next(iter(self.open.values()), offset + 1)
                self.aborted.append(AbortedTransaction(producer_id, start, offset, stable))


def aborted_spans(
    spans: Iterable[tuple[int, int, int]], aborted: Sequence[AbortedTransaction]
) -> Iterator[tuple[int, int]]:
    """Yields the aborted offset ranges among (producer id, first, last) of transactional batches."""
    for producer_id, first, last in spans:
        if any(
            transaction.producer_id == producer_id
            and transaction.first_offset <= first
            and last < transaction.last_offset
            for transaction in aborted
        ):
            yield first, last


_MARKER: Final = struct.Struct(">bbbbbhhbhib")
_CONTROL_AND_TRANSACTIONAL: Final = 0x30
_ABORT, _COMMIT = 0, 1


def marker_batch(marker: Marker, offset: int, leader_epoch: int, now_ms: int) -> StoredBatch:
    """Returns the control batch of a marker (Kafka: EndTransactionMarker, ControlRecordType).

    Its record has the key (version, type) and the value (version, coordinator epoch).
    """
    record = _MARKER.pack(
        # Lengths are zigzag varints: twice the value.
        2 * (_MARKER.size - 1), 0, 0, 0,
        2 * 4, 0, _COMMIT if marker.commit else _ABORT,
        2 * 6, 0, marker.coordinator_epoch,
        0,
    )  # fmt: skip
    header = BatchHeader(
        base_offset=offset,
        length=0,  # `seal` fills in length and CRC
        leader_epoch=leader_epoch,
        magic=2,
        crc=0,
        attributes=_CONTROL_AND_TRANSACTIONAL,
        last_offset_delta=0,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        base_sequence=-1,
        record_count=1,
    )
    return StoredBatch(offset, offset, seal(header, record), now_ms, control=True)


def commits(marker: StoredBatch) -> bool:
    """Returns whether a marker commits its transaction."""
    return bool(_MARKER.unpack_from(marker.data, HEADER_SIZE)[6] == _COMMIT)
