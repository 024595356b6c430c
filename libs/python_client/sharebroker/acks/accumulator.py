"""Turns single acknowledgements into runs of offsets, and results of runs into results of records."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from sharebroker_protocol.errors import IllegalStateError, KafkaError
from sharebroker_protocol.outcome import QUEUED, SENT
from sharebroker_protocol.records.acknowledgement import Acknowledgement
from sharebroker_protocol.records.record import AcknowledgeType, Acquisition, Record, spans

RENEW: Final = AcknowledgeType.RENEW
RELEASE: Final = AcknowledgeType.RELEASE


class Run:
    """Consecutive offsets of one acquisition with the same decision: one entry on the wire.

    `entries` are the acknowledgements that wait for its outcome; `reported` is whether the application hears
    of it. `unseen` marks records that nobody has looked at.
    """

    __slots__ = (
        "_unanswered",
        "acquisition",
        "detail",
        "done",
        "entries",
        "first",
        "id",
        "kind",
        "last",
        "reported",
        "unseen",
    )

    def __init__(
        self,
        acquisition: Acquisition,
        offsets: tuple[int, int],
        kind: AcknowledgeType,
        detail: int | str | None = None,
    ) -> None:
        """`offsets` is (first, last), last inclusive."""
        self.id = 0
        self.acquisition = acquisition
        self.first, self.last = offsets
        self.kind = kind
        self.detail = detail
        self.done = self.reported = self.unseen = False
        self.entries: Sequence[Acknowledgement] = ()
        self._unanswered = self.last - self.first + 1

    @property
    def unanswered(self) -> list[int]:
        """The offsets of records whose outcome is not known yet."""
        if self.entries or self.done:
            return [said.offset for said in self.entries if not said.done]
        return list(range(self.first, self.last + 1))

    def take(self, first: int, last: int) -> Run:
        """The part of the run in first..last, taken out of it; the run itself once that is the rest."""
        first, last = max(first, self.first), min(last, self.last)
        if first > last:  # about none of it: nothing better will come
            return self
        self._unanswered -= last - first + 1
        if self._unanswered <= 0:
            self.first, self.last = first, last
            return self
        part = Run(self.acquisition, (first, last), self.kind, self.detail)
        part.reported = self.reported
        part.entries = [said for said in self.entries if first <= said.offset <= last]
        self.entries = [said for said in self.entries if not first <= said.offset <= last]
        return part

    def settle(self, error: KafkaError | None) -> None:
        """The outcome is known."""
        self.done = True
        for said in self.entries:
            said.settle(error)


Pending = Acknowledgement | Run
OnSettled = Callable[[Run, KafkaError | None], None]


class Accumulator:
    """All acknowledgements of one connection, and the acquisitions they are about.

    Records call `acknowledge` from the application's thread; the rest belongs to the connection's loop.
    `wake` is called when there is something to `drain` (once until drained), `on_settled` with every run of
    records whose outcome is known; both from either thread.
    """

    __slots__ = (
        "_closed",
        "_explicit",
        "_in_flight",
        "_last_id",
        "_lock",
        "_on_settled",
        "_queue",
        "_runs",
        "_wake",
        "_woken",
        "held",
        "undecided",
    )

    def __init__(
        self, wake: Callable[[], None], explicit: bool = True, on_settled: OnSettled | None = None
    ) -> None:
        self._wake = wake
        self._on_settled = on_settled
        self._explicit = explicit
        self._woken = False
        self._queue: deque[Acknowledgement] = deque()
        self._runs: deque[Run] = deque()
        self._in_flight: dict[int, Run] = {}
        self._last_id = 0
        self._closed: KafkaError | None = None
        self._lock = threading.Lock()  # between changing a queued decision and draining it
        self.held: set[Acquisition] = set()
        """Acquisitions with offsets for which no final word was sent."""
        self.undecided = 0
        """The number of these offsets."""

    def acknowledge(
        self, record: Record, kind: AcknowledgeType, detail: int | str | None = None
    ) -> Acknowledgement:
        """The application's word on a record; as `decide`, but IllegalStateError in implicit mode."""
        if not self._explicit:
            raise IllegalStateError("with implicit acknowledgement the consumer accepts by itself")
        return self.decide(record, kind, detail)

    def decide(
        self, record: Record, kind: AcknowledgeType, detail: int | str | None = None
    ) -> Acknowledgement:
        """Queue a decision; it replaces one that is still queued, or that was refused.

        Raises IllegalStateError when a final decision was already sent and not refused.
        """
        if record.acknowledgement is not None:
            changed = self._changed(record, record.acknowledgement, kind, detail)
            if changed is not None:
                return changed
        said = record.acknowledgement = Acknowledgement(record, kind, detail)
        self._queue.append(said)
        if not self._woken:
            self._wake_once()
        return said

    def decide_run(self, acquisition: Acquisition, first: int, last: int, kind: AcknowledgeType) -> None:
        """Queue a decision on records that none was made on before, without an acknowledgement for each."""
        run = Run(acquisition, (first, last), kind)
        run.reported = True
        self._queue_run(run)

    def _queue_run(self, run: Run) -> None:
        self._runs.append(run)
        self._wake_once()

    def _wake_once(self) -> None:
        if not self._woken:
            self._woken = True
            if self._closed is None:
                self._wake()
            else:
                self.drain()  # nobody else will

    def _changed(
        self, record: Record, present: Acknowledgement, kind: AcknowledgeType, detail: int | str | None
    ) -> Acknowledgement | None:
        """The queued acknowledgement with its new decision; None when there is room for another one."""
        with self._lock:
            if present.progress is QUEUED:
                present.kind = kind
                present.detail = detail
                return present
        if present.kind is RENEW or present.error is not None:
            return None
        raise IllegalStateError(f"{record!r} was already acknowledged ({present.kind.name})")

    def take(self, acquisition: Acquisition) -> None:
        """Records were acquired for us."""
        self.held.add(acquisition)
        self.undecided += acquisition.undecided

    def add_silent(
        self,
        acquisition: Acquisition,
        offsets: tuple[int, int],
        kind: AcknowledgeType,
        reason: str | None = None,
    ) -> None:
        """Queue a decision that no record waits for: offsets without a record, renewals by the consumer."""
        self._queue_run(Run(acquisition, offsets, kind, reason))

    def give_back(self, records: Sequence[Record]) -> None:
        """Queue that nobody has looked at these records: they are no longer ours."""
        for acquisition, first, last in spans(records):
            run = Run(acquisition, (first, last), RELEASE)
            run.unseen = True
            acquisition.lost.append((first, last))
            self._queue_run(run)

    def drain(self) -> list[Run]:
        """Everything queued as runs, now in flight. On a closed connection they fail instead."""
        self._woken = False  # first: what is queued from here on is either drained below or wakes again
        runs = [self._runs.popleft() for _ in range(len(self._runs))]
        with self._lock:
            groups = _grouped(self._queue)
        for group in groups:
            runs += _coalesced(group)
        if self._closed is not None:
            for run in runs:
                self._settle(run, self._closed)
            return []
        for run in runs:
            self._last_id = run.id = self._last_id + 1
            self._in_flight[run.id] = run
            if run.kind is not RENEW:
                self._decided(run.acquisition, run.last - run.first + 1)
        return runs

    @property
    def unsettled(self) -> bool:
        """Whether any acknowledgement waits for its outcome."""
        return bool(self._queue or self._runs or self._in_flight)

    def resolve(
        self, run_id: int, error: KafkaError | None, deadline: float, offsets: tuple[int, int] | None = None
    ) -> Run | None:
        """Settle a run in flight, or its part in `offsets` (first, last): records may fare differently.

        What was settled; None when there is no such run. `deadline`: the new one of a renewal.
        """
        run = self._in_flight.get(run_id)
        if run is None:
            return None
        part = run if offsets is None else run.take(*offsets)
        if part is run:
            del self._in_flight[run_id]
        if part.kind is RENEW and error is None:
            part.acquisition.renew(part.first, part.last, deadline)
        self._settle(part, error)
        return part

    def _settle(self, run: Run, error: KafkaError | None) -> None:
        run.settle(error)
        if self._on_settled is not None and run.reported:
            self._on_settled(run, error)

    def pending(self) -> list[Pending]:
        """What the application said and does not know the outcome of."""
        runs = (*self._runs, *self._in_flight.values())
        return [*self._queue, *(run for run in runs if run.reported)]

    def _decided(self, acquisition: Acquisition, offsets: int) -> None:
        offsets = min(offsets, acquisition.undecided)  # some may be decided and lost
        acquisition.undecided -= offsets
        self.undecided -= offsets
        if acquisition.undecided == 0:
            self.held.discard(acquisition)

    def lost(self, topic_id: str, partition: int, offsets: tuple[int, int], token: int) -> None:
        """Note that the lock of `offsets` (first, last) under `token` is gone; 0 stands for any token."""
        first, last = offsets
        for acquisition in list(self.held):
            if (
                (acquisition.topic_id, acquisition.partition) == (topic_id, partition)
                and token in (0, acquisition.token)
                and acquisition.first <= last
                and first <= acquisition.last
            ):
                acquisition.lost.append((first, last))
                self._decided(acquisition, min(last, acquisition.last) - max(first, acquisition.first) + 1)

    def close(self, error: KafkaError) -> None:
        """The connection is gone: what is queued, in flight or comes later fails with `error`."""
        self._closed = error
        in_flight, self._in_flight = self._in_flight, {}
        for run in in_flight.values():
            self._settle(run, error)
        self.drain()
        for acquisition in self.held:
            acquisition.lost.append((acquisition.first, acquisition.last))
        self.held.clear()
        self.undecided = 0


def _grouped(queue: deque[Acknowledgement]) -> Iterable[list[Acknowledgement]]:
    """Empty `queue`, by acquisition and decision; each acknowledgement is now sent."""
    groups: dict[tuple[int, AcknowledgeType, int | str | None], list[Acknowledgement]] = {}
    acquisition: Acquisition | None = None
    kind: AcknowledgeType | None = None
    detail: int | str | None = None
    group: list[Acknowledgement] = []
    for _ in range(len(queue)):
        said = queue.popleft()
        said.progress = SENT
        if said.acquisition is not acquisition or said.kind is not kind or said.detail != detail:
            acquisition, kind, detail = said.acquisition, said.kind, said.detail
            group = groups.setdefault((id(acquisition), kind, detail), [])
        group.append(said)
    return groups.values()


def _coalesced(group: list[Acknowledgement]) -> Iterator[Run]:
    """The runs of consecutive offsets in one group."""
    offsets = [said.offset for said in group]
    # Each offset occurs once, so these are one run in whatever order.
    if max(offsets) - min(offsets) + 1 == len(offsets):
        yield _run(group, min(offsets), max(offsets))
        return
    group.sort(key=lambda said: said.offset)
    offsets.sort()
    start = 0
    for end in range(1, len(group) + 1):
        if end == len(group) or offsets[end] != offsets[end - 1] + 1:
            yield _run(group[start:end], offsets[start], offsets[end - 1])
            start = end


def _run(entries: list[Acknowledgement], first: int, last: int) -> Run:
    run = Run(entries[0].acquisition, (first, last), entries[0].kind, entries[0].detail)
    run.entries = entries
    run.reported = True
    return run
