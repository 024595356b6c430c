"""The records between SPSO and SPEO, as ordered runs of offsets with one state each.

Two parallel lists (first offsets, runs) and bisect. A run belongs to a batch, the unit in which its records
were first acquired: batches are handed out whole, and their size decides how far a poison record is isolated.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from sharebroker_protocol.model import RecordState, StateBatch
from sharebroker_server.share_partition_leader.core.states import TRANSITIONS, Event

AVAILABLE = RecordState.AVAILABLE
ACQUIRED = RecordState.ACQUIRED
ACKNOWLEDGED = RecordState.ACKNOWLEDGED
ARCHIVED = RecordState.ARCHIVED


DELAYED_RELEASE: Final = ""
"""The member that holds what was released for later."""


class Batch(NamedTuple):
    """The offsets that were first acquired, or loaded, as one unit."""

    first: int
    last: int


class Lock:
    """An acquisition lock, shared by all runs of one acquire call. Never changed; a renewal makes another.

    It ends with the share `session` it was issued to, if there is one; its `member` may answer from another.
    """

    __slots__ = ("deadline", "member", "session", "token")

    def __init__(self, member: str, token: int, deadline: float, session: str = "") -> None:
        self.member = member
        self.token = token
        self.deadline = deadline
        self.session = session


class Transition:
    """State changes on their way to the share coordinator, committed or rolled back together.

    `batches` is what has to be written. `runs` wait for the outcome; a change that was applied already
    (lock timeout) has none. With `until`, what it releases stays locked until then, by nobody. Of what it
    archives so many offsets were `rejected`, or are `gaps` in the log.
    """

    __slots__ = ("batches", "gaps", "id", "rejected", "runs", "until")

    def __init__(self, transition_id: int, until: float | None = None) -> None:
        self.id = transition_id
        self.until = until
        self.runs: list[Run] = []
        self.batches: list[StateBatch] = []
        self.rejected = 0
        self.gaps = 0


class Run:
    """Offsets first..last in one state.

    ACQUIRED exactly when there is a `lock`. While a `pending` transition wants to move it to `target` it
    stays ACQUIRED, so that rolling back means forgetting the transition. A run without a `batch` is a hole in
    the loaded state: records whose first attempt was under way when the previous leader stopped.
    """

    __slots__ = ("batch", "delivery_count", "first", "last", "lock", "pending", "state", "target")

    def __init__(
        self,
        first: int,
        last: int,
        state: RecordState,
        delivery_count: int,
        batch: Batch | None,
        lock: Lock | None = None,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.batch = batch
        self.lock = lock
        self.pending: Transition | None = None
        self.target = state

    @property
    def size(self) -> int:
        """Number of offsets."""
        return self.last - self.first + 1

    def unlock(self, state: RecordState) -> None:
        """Put the run into an unlocked state."""
        self.state = state
        self.lock = None
        self.pending = None

    def continues_as(self, other: Run) -> bool:
        """Whether `other` follows at once and differs in nothing but its offsets; pending runs stay apart."""
        return (
            self.last + 1 == other.first
            and self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.lock is other.lock
            and self.batch is other.batch
            and self.pending is None
            and other.pending is None
        )


class InFlight:
    """Runs in order of offsets, disjoint, with the pointers they define.

    While there are runs, `start` (SPSO) is the first one's first offset and is not terminal, and `end` (SPEO)
    is the last one's last offset. Without runs both are the next offset to fetch. What lies between runs does
    not exist in the log. `complete_count` counts the terminal offsets.
    """

    __slots__ = ("_available_from", "complete_count", "end", "firsts", "runs", "start")

    def __init__(self, start_offset: int) -> None:
        self.start = start_offset
        self.end = start_offset
        self.firsts: list[int] = []
        self.runs: list[Run] = []
        self.complete_count = 0
        # No AVAILABLE run lies before this offset; None: there is none at all.
        self._available_from: int | None = None

    @property
    def count(self) -> int:
        """Width of the window SPSO..SPEO, finished records and gaps included, as Kafka counts it."""
        return self.end - self.start + 1 if self.runs else 0

    @property
    def after_end(self) -> int:
        """First offset that was never fetched."""
        return self.end + 1 if self.runs else self.end

    def locate(self, offset: int) -> int:
        """Index of the run that holds the offset, else of the first run after it."""
        index = bisect_right(self.firsts, offset) - 1
        return index if index >= 0 and self.runs[index].last >= offset else index + 1

    def first_available(self) -> int | None:
        """First AVAILABLE offset, None when there is none; the search goes on where it last ended."""
        if self._available_from is None:
            return None
        for index in range(self.locate(self._available_from), len(self.runs)):
            if self.runs[index].state is AVAILABLE:
                self._available_from = self.runs[index].first
                return self._available_from
        self._available_from = None
        return None

    def mark_available(self, offset: int) -> None:
        """Remember that a run at this offset became AVAILABLE."""
        if self._available_from is None or offset < self._available_from:
            self._available_from = offset

    def append(self, run: Run) -> None:
        """Add a run behind all others; on an empty window the SPSO jumps to it over a gap in the log."""
        if not self.runs:
            self.start = run.first
        self.runs.append(run)
        self.firsts.append(run.first)
        self.end = run.last

    def replace(self, index: int, runs: list[Run]) -> None:
        """Put several runs, together as long, in the place of one."""
        self.runs[index : index + 1] = runs
        self.firsts[index : index + 1] = [run.first for run in runs]

    def split_at(self, index: int, first: int, last: int) -> int:
        """Cut a run so that first..last, clipped to it, is a run of its own; return its index.

        The run must not be pending: transitions hold their runs by identity.
        """
        run = self.runs[index]
        if run.last > last:
            self._split(index, last + 1)
        if run.first < first:
            self._split(index, first)
            return index + 1
        return index

    def coalesce_at(self, index: int) -> None:
        """Unite a run with the neighbours that differ from it in nothing."""
        runs = self.runs
        if index + 1 < len(runs) and runs[index].continues_as(runs[index + 1]):
            self._absorb_next(index)
        if index > 0 and runs[index - 1].continues_as(runs[index]):
            self._absorb_next(index - 1)

    def coalesce(self, runs: list[Run]) -> None:
        """Unite runs that changed with their neighbours; those no longer in the window are left out."""
        for run in runs:
            index = bisect_left(self.firsts, run.first)
            if index < len(self.runs) and self.runs[index] is run:
                self.coalesce_at(index)

    def undo(self, runs: list[Run]) -> None:
        """Make acquired runs available again as if they had not been delivered."""
        for run in runs:
            run.delivery_count -= 1
            run.unlock(TRANSITIONS[run.state, Event.UNDO])
            self.mark_available(run.first)
        self.coalesce(runs)

    def archive(self, first: int, last: int, event: Event) -> None:
        """Archive in memory what `event` may archive in first..last; the SPSO advances."""
        index = self.locate(first)
        while index < len(self.runs) and self.runs[index].first <= last:
            run = self.runs[index]
            if run.pending is None and (run.state, event) in TRANSITIONS:
                index = self.split_at(index, first, last)
                run = self.runs[index]
                run.unlock(TRANSITIONS[run.state, event])
                self.complete_count += run.size
            index += 1
        self.advance()

    def advance(self) -> bool:
        """Move the SPSO over the leading terminal runs and drop them; whether it moved."""
        passed = 0
        for run in self.runs:
            if run.state < ACKNOWLEDGED:
                break
            self.complete_count -= run.size
            passed += 1
        self._drop(passed)
        return passed > 0

    def drop_before(self, offset: int) -> None:
        """Forget everything below an offset past the SPSO, whatever its state: the log has lost it."""
        passed = 0
        for run in self.runs:
            if run.first >= offset:
                break
            if run.state >= ACKNOWLEDGED:
                self.complete_count -= min(run.last, offset - 1) - run.first + 1
            if run.last >= offset:
                run.first = self.firsts[passed] = offset
                break
            run.unlock(ARCHIVED)
            passed += 1
        self._drop(passed)
        if not self.runs:
            self.start = self.end = offset
        self.advance()

    def _drop(self, number: int) -> None:
        if number:
            del self.runs[:number]
            del self.firsts[:number]
        if self.runs:
            self.start = self.firsts[0]
        elif number:
            self.start = self.end = self.end + 1

    def _split(self, index: int, at: int) -> None:
        run = self.runs[index]
        rest = Run(at, run.last, run.state, run.delivery_count, run.batch, run.lock)
        run.last = at - 1
        self.runs.insert(index + 1, rest)
        self.firsts.insert(index + 1, at)

    def _absorb_next(self, index: int) -> None:
        self.runs[index].last = self.runs[index + 1].last
        del self.runs[index + 1]
        del self.firsts[index + 1]
