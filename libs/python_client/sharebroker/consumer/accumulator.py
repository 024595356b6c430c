"""Combines acknowledgements of records into ack batches, and splits their results into outcomes of records.

Theory of operation
-------------------

The application's thread appends acknowledgements to `_queue` and whole ranges to `_batches`. The stream's
writer calls `drain`, which coalesces consecutive offsets of one acquisition with the same acknowledge type
and detail into ack batches, numbers them and moves them to `_in_flight`. `resolve` matches a result to its
batch by number. A result may cover a part of the batch; `PendingAckBatch.split` then detaches that part.

An acknowledgement is QUEUED, SENT, then DONE. It can be replaced only while it is QUEUED. The lock orders
replacing against draining; everything else needs no lock, because `deque.append` and `popleft` are atomic.

`_woken` limits wake-ups to one per drain. `drain` resets it before it reads the queues, so an
acknowledgement that is queued during the drain is either drained or causes another wake-up.

After `close` no task drains the queue. Acknowledgements then fail at once, in the thread that makes them.
Those of durable acquisitions, and the acquisitions themselves, move to the `successor` instead.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from typing_extensions import override

from sharebroker_protocol.errors import ErrorCode, IllegalStateError, KafkaError
from sharebroker_protocol.outcome import QUEUED, SENT
from sharebroker_protocol.records.record import (
    Acknowledgement,
    AcknowledgeType,
    AcquiredRecords,
    Detail,
    Record,
    spans,
)

RENEW: Final = AcknowledgeType.RENEW
RELEASE: Final = AcknowledgeType.RELEASE
GAP: Final = AcknowledgeType.GAP


class PendingAckBatch:
    """Consecutive offsets of one acquisition with one acknowledge type: one entry on the wire.

    `entries` are the acknowledgements that wait for its outcome. `reported` is whether the application
    receives the outcome. `unseen` marks records that the application never received. `resent`: it was sent
    before, and may have been applied.
    """

    __slots__ = (
        "_unconfirmed",
        "acquisition",
        "detail",
        "done",
        "entries",
        "first",
        "id",
        "kind",
        "last",
        "reported",
        "resent",
        "unseen",
    )

    def __init__(
        self,
        acquisition: AcquiredRecords,
        offsets: tuple[int, int],
        kind: AcknowledgeType,
        detail: Detail = None,
    ) -> None:
        """`offsets` is (first, last), last inclusive."""
        self.id = 0
        self.acquisition = acquisition
        self.first, self.last = offsets
        self.kind = kind
        self.detail = detail
        self.done = self.reported = self.resent = self.unseen = False
        self.entries: Sequence[Acknowledgement] = ()
        self._unconfirmed = self.last - self.first + 1

    @property
    def unconfirmed_offsets(self) -> list[int]:
        """The offsets without a known outcome."""
        if self.entries or self.done:
            return [ack.offset for ack in self.entries if not ack.done]
        return list(range(self.first, self.last + 1))

    def split(self, first: int, last: int) -> PendingAckBatch:
        """Detaches and returns the offsets first..last.

        Returns the batch itself if they are all that remains.
        """
        first, last = max(first, self.first), min(last, self.last)
        if first > last:  # the result names no offset of this batch
            return self
        self._unconfirmed -= last - first + 1
        if self._unconfirmed <= 0:
            self.first, self.last = first, last
            return self
        part = PendingAckBatch(self.acquisition, (first, last), self.kind, self.detail)
        part.reported = self.reported
        part.unseen = self.unseen
        part.entries = [ack for ack in self.entries if first <= ack.offset <= last]
        self.entries = [ack for ack in self.entries if not first <= ack.offset <= last]
        return part

    def complete(self, error: KafkaError | None) -> None:
        """Sets the outcome of the batch and of its acknowledgements."""
        self.done = True
        for ack in self.entries:
            ack.complete(error)


Pending = Acknowledgement | PendingAckBatch
LostOffsets = tuple[AcquiredRecords, list[int]]
OnOutcome = Callable[[PendingAckBatch, KafkaError | None], None]


class Accumulator:
    """The acknowledgements and acquisitions of one stream.

    `wake` is called once per `drain` when acknowledgements are queued, `on_outcome` for each reported batch
    with an outcome; both from the application's thread or the event loop. `acknowledge`, `queue` and
    `queue_range` may be called from any thread, everything else from the event loop.
    """

    __slots__ = (
        "_batches",
        "_closed",
        "_in_flight",
        "_last_id",
        "_lock",
        "_on_outcome",
        "_queue",
        "_successor",
        "_wake",
        "_woken",
        "held",
        "unacknowledged",
    )

    def __init__(
        self,
        wake: Callable[[], None],
        on_outcome: OnOutcome | None = None,
        successor: Accumulator | None = None,
    ) -> None:
        self._wake = wake
        self._on_outcome = on_outcome
        self._successor = successor
        self._woken = False
        self._queue: deque[Acknowledgement] = deque()
        self._batches: deque[PendingAckBatch] = deque()
        self._in_flight: dict[int, PendingAckBatch] = {}
        self._last_id = 0
        self._closed: KafkaError | None = None
        self._lock = threading.Lock()  # between replacing a queued acknowledgement and draining it
        self.held: set[AcquiredRecords] = set()
        """Acquisitions with offsets that have no final acknowledgement sent."""
        self.unacknowledged = 0
        """The number of these offsets."""

    def queue(self, record: Record, kind: AcknowledgeType, detail: Detail = None) -> Acknowledgement:
        """Queues an acknowledgement; it replaces one that is still queued or that failed.

        Raises IllegalStateError if a final acknowledgement was already sent and did not fail.
        """
        if record.acknowledgement is not None:
            changed = self._replace_queued(record, record.acknowledgement, kind, detail)
            if changed is not None:
                return changed
        ack = record.acknowledgement = Acknowledgement(record, kind, detail)
        self._queue.append(ack)
        if not self._woken:
            self._wake_once()
        return ack

    acknowledge = queue  # one call less per record than a method that calls `queue`

    def queue_range(self, acquisition: AcquiredRecords, first: int, last: int, kind: AcknowledgeType) -> None:
        """Queues one acknowledge type for records that were not acknowledged before, as a single batch."""
        batch = PendingAckBatch(acquisition, (first, last), kind)
        batch.reported = True
        self._queue_batch(batch)

    def _queue_batch(self, batch: PendingAckBatch) -> None:
        self._batches.append(batch)
        self._wake_once()

    def _wake_once(self) -> None:
        if not self._woken:
            self._woken = True
            if self._closed is None:
                self._wake()
            else:
                self.drain()  # no writer runs after close

    def _replace_queued(
        self, record: Record, present: Acknowledgement, kind: AcknowledgeType, detail: Detail
    ) -> Acknowledgement | None:
        """Changes and returns `present` if it is queued; returns None if a new one is permitted."""
        with self._lock:
            if present.progress is QUEUED:
                present.kind = kind
                present.detail = detail
                return present
        if present.kind is RENEW or present.error is not None:
            return None
        raise IllegalStateError(f"{record!r} was already acknowledged ({present.kind.name})")

    def add_acquisition(self, acquisition: AcquiredRecords) -> None:
        """Adds an acquisition made for this stream."""
        if acquisition.unacknowledged:
            self.held.add(acquisition)
            self.unacknowledged += acquisition.unacknowledged

    def queue_internal(
        self,
        acquisition: AcquiredRecords,
        offsets: tuple[int, int],
        kind: AcknowledgeType,
        detail: Detail = None,
    ) -> None:
        """Queues an unreported acknowledgement: offsets without a record, renewals by the consumer."""
        if kind is not RENEW:
            acquisition.settle(*offsets)
        self._queue_batch(PendingAckBatch(acquisition, offsets, kind, detail))

    def undo(self, records: Sequence[Record]) -> None:
        """Queues the undoing of acquisitions of records that the application never received."""
        for acquisition, first, last in spans(records):
            batch = PendingAckBatch(acquisition, (first, last), RELEASE)
            batch.unseen = True
            acquisition.lose(first, last)
            self._queue_batch(batch)

    def drain(self) -> list[PendingAckBatch]:
        """Returns everything queued as ack batches, now in flight; after `close` it fails them instead."""
        self._woken = False  # before the queues are read, see above
        batches = [self._batches.popleft() for _ in range(len(self._batches))]
        with self._lock:
            groups = _grouped(self._queue)
        for group in groups:
            batches += _coalesced(group)
        if self._closed is not None:
            for batch in batches:
                self._end(batch, self._closed)
            return []
        for batch in batches:
            self._last_id = batch.id = self._last_id + 1
            self._in_flight[batch.id] = batch
            if batch.kind is not RENEW and not batch.resent:
                self._count_acknowledged(batch.acquisition, batch.last - batch.first + 1)
        return batches

    @property
    def has_unconfirmed(self) -> bool:
        """Whether an acknowledgement is queued or in flight."""
        return bool(self._queue or self._batches or self._in_flight)

    def resolve(
        self, batch_id: int, error: KafkaError | None, deadline: float, offsets: tuple[int, int] | None = None
    ) -> PendingAckBatch | None:
        """Completes a batch in flight, or its part in `offsets` (first, last), and returns it.

        Returns None for an unknown batch. `deadline` is the new deadline of a renewal, in seconds since the
        Unix epoch. The records of one batch can have different outcomes.
        """
        batch = self._in_flight.get(batch_id)
        if batch is None:
            return None
        part = batch if offsets is None else batch.split(*offsets)
        if part is batch:
            del self._in_flight[batch_id]
        if part.kind is RENEW and error is None:
            part.acquisition.renew(part.first, part.last, deadline)
        if error is not None and error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            part.resent = True
            self._end(part, error)
        else:
            self._complete(part, error)
        return part

    def _end(self, batch: PendingAckBatch, error: KafkaError) -> None:
        """Completes a batch that this stream cannot send, or moves it to the successor if it is durable."""
        own_renewal = batch.kind is RENEW and not batch.reported
        if self._successor is None or not batch.acquisition.durable or own_renewal or batch.kind is GAP:
            self._complete(batch, error)
        else:
            self._successor._queue_batch(batch)

    def _complete(self, batch: PendingAckBatch, error: KafkaError | None) -> None:
        if error is None and batch.kind is not RENEW:
            batch.acquisition.settle(batch.first, batch.last)
        batch.complete(error)
        if self._on_outcome is not None and batch.reported:
            self._on_outcome(batch, error)

    def pending(self) -> list[Pending]:
        """Returns the reported acknowledgements without an outcome."""
        batches = (*self._batches, *self._in_flight.values())
        return [*self._queue, *(batch for batch in batches if batch.reported)]

    def _count_acknowledged(self, acquisition: AcquiredRecords, offsets: int) -> None:
        offsets = min(offsets, acquisition.unacknowledged)  # an offset may be acknowledged and lost
        acquisition.unacknowledged -= offsets
        self.unacknowledged -= offsets
        if acquisition.unacknowledged == 0:
            self.held.discard(acquisition)

    def note_lock_lost(
        self, topic_id: str, partition: int, offsets: tuple[int, int], token: int
    ) -> list[LostOffsets]:
        """Marks the locks on `offsets` (first, last) with this token as lost; token 0 matches any.

        Returns the offsets that were held until now, without those whose acknowledgement is confirmed.
        """
        first, last = offsets
        lost: list[LostOffsets] = []
        for acquisition in self._locked():
            if (
                (acquisition.topic_id, acquisition.partition) == (topic_id, partition)
                and token in (0, acquisition.token)
                and acquisition.first <= last
                and first <= acquisition.last
            ):
                lost.append((acquisition, acquisition.lose(first, last)))
                self._count_acknowledged(
                    acquisition, min(last, acquisition.last) - max(first, acquisition.first) + 1
                )

        return lost

    def _locked(self) -> list[AcquiredRecords]:
        """Returns the acquisitions with offsets whose final acknowledgement is not confirmed, in order."""
        in_flight = {batch.acquisition for batch in self._in_flight.values()}
        return sorted(self.held | in_flight, key=lambda one: (one.topic, one.partition, one.first))

    def close(self, error: KafkaError) -> list[LostOffsets]:
        """Fails everything queued or in flight, and every later acknowledgement, with `error`.

        Returns the offsets that were held until now, without those whose acknowledgement is confirmed.
        """
        self._closed = error
        locked = self._locked()
        if self._successor is not None:
            for acquisition in locked:
                if acquisition.durable:
                    acquisition.sink = self._successor
                    self._successor.add_acquisition(acquisition)
            locked = [acquisition for acquisition in locked if not acquisition.durable]
        in_flight, self._in_flight = self._in_flight, {}
        for batch in in_flight.values():
            batch.resent = True
            self._end(batch, error)
        self.drain()
        self.held.clear()
        self.unacknowledged = 0
        return [
            (acquisition, acquisition.lose(acquisition.first, acquisition.last)) for acquisition in locked
        ]


class ImplicitAccumulator(Accumulator):
    """The accumulator of a consumer that accepts records automatically."""

    __slots__ = ()

    @override
    def acknowledge(self, record: Record, kind: AcknowledgeType, detail: Detail = None) -> Acknowledgement:
        raise IllegalStateError("with implicit acknowledgement the consumer accepts records automatically")


def _grouped(queue: deque[Acknowledgement]) -> Iterable[list[Acknowledgement]]:
    """Empties `queue` into groups of equal acquisition, type and detail, and marks all as SENT."""
    groups: dict[tuple[int, AcknowledgeType, Detail], list[Acknowledgement]] = {}
    acquisition: AcquiredRecords | None = None
    kind: AcknowledgeType | None = None
    detail: Detail = None
    group: list[Acknowledgement] = []
    for _ in range(len(queue)):
        ack = queue.popleft()
        ack.progress = SENT
        if ack.acquisition is not acquisition or ack.kind is not kind or ack.detail != detail:
            acquisition, kind, detail = ack.acquisition, ack.kind, ack.detail
            group = groups.setdefault((id(acquisition), kind, detail), [])
        group.append(ack)
    return groups.values()


def _coalesced(group: list[Acknowledgement]) -> Iterator[PendingAckBatch]:
    """Yields one batch per run of consecutive offsets in a group."""
    offsets = [ack.offset for ack in group]
    # Each offset occurs once, so these are consecutive in any order.
    if max(offsets) - min(offsets) + 1 == len(offsets):
        yield _ack_batch(group, min(offsets), max(offsets))
        return
    group.sort(key=lambda ack: ack.offset)
    offsets.sort()
    start = 0
    for end in range(1, len(group) + 1):
        if end == len(group) or offsets[end] != offsets[end - 1] + 1:
            yield _ack_batch(group[start:end], offsets[start], offsets[end - 1])
            start = end


def _ack_batch(entries: list[Acknowledgement], first: int, last: int) -> PendingAckBatch:
    batch = PendingAckBatch(entries[0].acquisition, (first, last), entries[0].kind, entries[0].detail)
    batch.entries = entries
    batch.reported = True
    return batch


class Renewal:
    """Stores delivered records until they are acknowledged.

    Times are the client's loop times of arrival, because the server's clock may differ.
    """

    def __init__(self) -> None:
        self._batches: list[tuple[float, list[Record]]] = []

    def watch(self, records: list[Record], now: float) -> None:
        """Adds records that arrived at `now`."""
        self._batches.append((now, records))

    def renew(self, accumulators: Sequence[Accumulator], now: float, every: float) -> None:
        """Queues renewals of unacknowledged records whose lock began at least `every` seconds ago.

        A record that the application renewed with a lock length of its own keeps that length.
        """
        remaining = []
        for since, batch in self._batches:
            by_length: dict[Detail, list[Record]] = {}
            for record in batch:
                if _is_unacknowledged(record, accumulators):
                    ack = record.acknowledgement
                    by_length.setdefault(None if ack is None else ack.detail, []).append(record)
            due = now - since >= every
            for lock_ms, records in by_length.items():
                if due:
                    for acquisition, first, last in spans(records):
                        sink = next(one for one in accumulators if one is acquisition.sink)
                        sink.queue_internal(acquisition, (first, last), RENEW, lock_ms)
                remaining.append((now if due else since, records))
        self._batches = remaining


def _is_unacknowledged(record: Record, accumulators: Sequence[Accumulator]) -> bool:
    ack = record.acknowledgement
    unanswered_ = ack is None or ack.kind is AcknowledgeType.RENEW
    return unanswered_ and record.acquisition.sink in accumulators and not record.lock_lost
