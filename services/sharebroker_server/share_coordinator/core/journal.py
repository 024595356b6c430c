"""The journal of failed records: those that ended although no member accepted them.

A state write lists the failed records among those that it archives, and the stored record contains both. A
record is therefore in the journal exactly if its archived or archiving state is durable. `new_failures` omits
records that were so before, or finished, so a repeated write adds nothing. A record that fails again after a
failure that was undone has the entry of the later one only.

The journal is no part of the state, so a checkpoint does not repeat it: an acknowledgement costs the same
with a full journal. A cold checkpoint contains the complete journal. Until then the shard's log is needed
from `position` on, the record with the first change since the latest complete one.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field

from sharebroker_protocol.model import ENDED, Disposition, FailedRecords, JournalUpdate, SharePartitionKey
from sharebroker_server.offset_spans import joined, split_by_spans
from sharebroker_server.share_coordinator.core.state import ShareState, count_below


@dataclass(slots=True)
class Journal:
    """The failed records of a share-partition, oldest first, and how many records were dropped.

    `position` is that of the first record in the shard's log that is needed, `since_ms` its time.
    """

    position: int
    since_ms: int
    limit: int = 0
    dropped: int = 0
    entries: deque[FailedRecords] = field(default_factory=deque)

    def apply(self, update: JournalUpdate) -> None:
        """Adds the records of an update, or replaces the journal; then applies the limit."""
        if update.complete:
            self.entries.clear()
            self.dropped = 0
        self.dropped += update.dropped
        self.limit = update.limit
        self._remove(update.records)
        entries = self.entries
        for entry in update.records:
            if entries and _continues(entries[-1], entry):
                entry = entry._replace(first=entries.pop().first)
            entries.append(entry)
        while len(entries) > update.limit:
            oldest = entries.popleft()
            self.dropped += oldest.last - oldest.first + 1

    def _remove(self, records: Iterable[FailedRecords]) -> None:
        """Removes records that fail again: their earlier failure was undone, as its write had no response."""
        again = joined(sorted((entry.first, entry.last) for entry in records))
        if not again or not any(
            entry.first <= again[-1][1] and entry.last >= again[0][0] for entry in self.entries
        ):
            return
        self.entries = deque(
            entry._replace(first=first, last=last)
            for entry in self.entries
            for first, last, index in split_by_spans(entry.first, entry.last, again)
            if index is None
        )

    def complete(self) -> JournalUpdate:
        """Returns the update that restores this journal."""
        return JournalUpdate(tuple(self.entries), self.limit, self.dropped, complete=True)

    def after(self, update: JournalUpdate | None) -> JournalUpdate:
        """Returns the update that restores this journal with another update."""
        if update is None:
            return self.complete()
        changed = deepcopy(self)
        changed.apply(update)
        return changed.complete()

    def before(self, offset: int) -> JournalUpdate:
        """Returns the update after which the journal ends before an offset."""
        kept = (entry for entry in self.entries if entry.first < offset)
        records = tuple(entry._replace(last=min(entry.last, offset - 1)) for entry in kept)
        return JournalUpdate(records, self.limit, self.dropped, complete=True)


Journals = OrderedDict[SharePartitionKey, Journal]
"""The journals of a shard, ordered by position, oldest first."""


def apply_to(
    journals: Journals, key: SharePartitionKey, update: JournalUpdate, position: int, time_ms: int
) -> None:
    """Applies an update that the record at `position` contains."""
    journal = journals.get(key)
    if journal is None:
        journal = journals[key] = Journal(position, time_ms)
    elif update.complete:
        journal.position, journal.since_ms = position, time_ms
        journals.move_to_end(key)
    journal.apply(update)


def new_failures(state: ShareState, update: JournalUpdate) -> JournalUpdate | None:
    """Returns the update without offsets that ended already; None if nothing remains."""
    records = tuple(part for entry in update.records for part in _unfinished(state, entry))
    return update._replace(records=records) if records else None


def _continues(before: FailedRecords, entry: FailedRecords) -> bool:
    """Whether expired records follow others, which become one entry with the later time."""
    return (
        before.last + 1 == entry.first
        and before.disposition == entry.disposition == Disposition.EXPIRED
        and before.delivery_count == entry.delivery_count
    )


def _unfinished(state: ShareState, entry: FailedRecords) -> Iterable[FailedRecords]:
    position = max(entry.first, state.start_offset)
    for index in range(count_below(state.runs, position), len(state.runs)):
        run = state.runs[index]
        if run.first > entry.last:
            break
        if run.state in ENDED:
            if position < run.first:
                yield entry._replace(first=position, last=run.first - 1)
            position = max(position, run.last + 1)
    if position <= entry.last:
        yield entry._replace(first=position)
