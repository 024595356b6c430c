"""The state of a share-partition: the durable records, how they combine, and the state in memory.

Times are milliseconds since the Unix epoch; 0 in records written before their kind had a time.

State batches combine into disjoint, ascending runs of maximal length (Kafka: PersisterStateBatchCombiner).
Where batches overlap, the higher delivery count wins, and with equal counts the higher state. The newer batch
does not win because it is newer. Delivery count and state of an offset are therefore a maximum, and the order
in which batches arrive has no effect on them. With equal counts and states the note of the newer batch wins:
it replaces a time, and its absence removes it. The writes of a share-partition arrive in order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from sharebroker_protocol.model import JournalUpdate, RecordState, SharePartitionKey, StateBatch

ARCHIVING: Final = int(RecordState.ARCHIVING)
"""Failed records that wait for their dead letters."""


class ShareCheckpoint(NamedTuple):
    """The complete state; the two times differ in a cold checkpoint.

    `failed` changes the journal (`core.journal`), which is not part of the state; None: it does not change.
    `kept_since` is the state epoch since which initialisations have kept the state; 0: `state_epoch`.
    """

    key: SharePartitionKey
    checkpoint_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_timestamp_ms: int
    write_timestamp_ms: int
    state_batches: tuple[StateBatch, ...]
    failed: JournalUpdate | None = None
    kept_since: int = 0


class ShareDelta(NamedTuple):
    """A change to the checkpoint of the same epoch.

    `delta_index` is part of the key. A leader epoch or start offset of -1 means unchanged. The delivery
    complete count always replaces the previous one. `failed` is as in a checkpoint.
    """

    key: SharePartitionKey
    delta_index: int
    checkpoint_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: tuple[StateBatch, ...]
    write_timestamp_ms: int = 0
    failed: JournalUpdate | None = None


class CheckpointTombstone(NamedTuple):
    """The share-partition is being deleted; its deltas no longer count, and their tombstones follow."""

    key: SharePartitionKey
    write_timestamp_ms: int = 0


class DeltaTombstone(NamedTuple):
    """Deletes the delta of this key and index."""

    key: SharePartitionKey
    delta_index: int
    write_timestamp_ms: int = 0


ShareRecord = ShareCheckpoint | ShareDelta | CheckpointTombstone | DeltaTombstone


def combine(runs: Sequence[StateBatch], added: Sequence[StateBatch], start_offset: int) -> list[StateBatch]:
    """Returns the runs of `runs` and `added` together, without offsets below `start_offset`.

    `added` may be unordered and may overlap. A start offset of -1 keeps all offsets. Takes O((n + m) log m)
    steps for n runs and m added batches.
    """
    combined = list(runs)
    combine_into(combined, added, start_offset)
    return combined


def combine_into(runs: list[StateBatch], added: Sequence[StateBatch], start_offset: int) -> None:
    """Combines `added` into `runs` in place; the cost depends on the runs that `added` touches."""
    for batch in added if len(added) < 2 else _disjoint(added):
        _insert(runs, batch)
    drop_below(runs, start_offset)


def drop_below(runs: list[StateBatch], start_offset: int) -> None:
    """Removes the offsets below `start_offset`, and shortens the run that contains it."""
    below = count_below(runs, start_offset)
    if below:
        del runs[:below]
    if runs and runs[0][0] < start_offset:
        runs[0] = StateBatch(start_offset, *runs[0][1:])


def count_below(runs: Sequence[StateBatch], start_offset: int) -> int:
    """Returns how many of the first runs lie entirely below `start_offset`."""
    index = bisect_left(runs, (start_offset,))
    return index - 1 if index and runs[index - 1][1] >= start_offset else index


def counts_by_state(runs: Sequence[StateBatch], now_ms: float) -> tuple[int, int, int]:
    """Returns how many offsets of the runs wait at a time, have a durable lock, and are archiving."""
    waiting = locked = archiving = 0
    for first, last, state, _, note in runs:
        if state == ARCHIVING:
            archiving += last - first + 1
        elif note is not None and note.not_before_ms > now_ms:
            if note.lock_token:
                locked += last - first + 1
            else:
                waiting += last - first + 1
    return waiting, locked, archiving


def _disjoint(batches: Sequence[StateBatch]) -> Sequence[StateBatch]:
    """Returns the batches as ascending disjoint ones.

    Divides and merges, so that adversarial overlaps do not cost quadratic time.
    """
    if all(lower[1] < upper[0] for lower, upper in pairwise(batches)):
        return batches
    middle = len(batches) // 2
    runs: list[StateBatch] = []
    for half in (batches[:middle], batches[middle:]):
        for batch in _disjoint(half):
            _insert(runs, batch)
    return runs


def _insert(runs: list[StateBatch], batch: StateBatch) -> None:
    """Merges one batch into the runs that it overlaps or touches."""
    if not runs or runs[-1][1] + 1 < batch[0]:
        runs.append(batch)
        return
    first, last = batch[0], batch[1]
    low = bisect_left(runs, (first,))
    if low and runs[low - 1][1] + 1 >= first:
        low -= 1
    high = bisect_left(runs, (last + 2,), low)
    runs[low:high] = _merge(runs[low:high], batch)


def _merge(window: list[StateBatch], batch: StateBatch) -> list[StateBatch]:
    """Returns the runs of a window after a merge: before the batch, in gaps, where they overlap, and after
    it.
    """
    first, last, state, count, _ = batch
    merged: list[StateBatch] = []
    position = first
    for run in window:
        run_first, run_last, run_state, run_count, _ = run
        if run_first < first:
            _append(merged, run_first, min(run_last, first - 1), run)
        if position < run_first:
            _append(merged, position, min(last, run_first - 1), batch)
        low, high = max(run_first, first), min(run_last, last)
        if low <= high:
            _append(merged, low, high, batch if (count, state) >= (run_count, run_state) else run)
        if run_last > last:
            _append(merged, max(run_first, last + 1), run_last, run)
        position = max(position, run_last + 1)
    if position <= last:
        _append(merged, position, last, batch)
    return merged


def _append(merged: list[StateBatch], first: int, last: int, like: StateBatch) -> None:
    """Appends a range in the state of `like`, or extends the previous one if it continues that."""
    _, _, state, count, note = like
    if merged:
        before = merged[-1]
        if before[1] + 1 == first and before[2] == state and before[3] == count and before[4] == note:
            merged[-1] = StateBatch(before[0], last, state, count, note)
            return
    merged.append(StateBatch(first, last, state, count, note))


@dataclass(slots=True)
class ShareState:
    """The replayed state of a share-partition, and the position of its latest checkpoint in the shard's log.

    `delta_indices` are the indices written since that checkpoint; each needs a tombstone when the state is
    deleted. `last_delta_index` is where the sequence continues. It is not compared: once the deltas of
    earlier checkpoints are trimmed, the sequence may restart.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    runs: list[StateBatch]
    checkpoint_epoch: int
    checkpoint_position: int
    create_timestamp_ms: int
    write_timestamp_ms: int
    last_delta_index: int = field(default=-1, compare=False)
    delta_indices: list[int] = field(default_factory=list)
    kept_since: int = 0

    @classmethod
    def of(cls, checkpoint: ShareCheckpoint, position: int, last_delta_index: int) -> ShareState:
        """Returns the state of a checkpoint at `position`; indices continue after `last_delta_index`."""
        _, epoch, state_epoch, leader_epoch, start_offset, count, created, written, runs, _, kept = checkpoint
        return cls(
            state_epoch,
            leader_epoch,
            start_offset,
            count,
            list(runs),
            epoch,
            position,
            created,
            written,
            last_delta_index,
            [],
            kept,
        )

    @property
    def cold(self) -> bool:
        """Returns whether the latest checkpoint is a cold one."""
        return self.create_timestamp_ms != self.write_timestamp_ms

    def apply(self, delta: ShareDelta) -> None:
        """Applies a delta of this checkpoint epoch."""
        _, index, _, leader_epoch, start_offset, count, batches, _, _ = delta
        if leader_epoch >= 0:
            self.leader_epoch = leader_epoch
        if start_offset >= 0:
            self.start_offset = start_offset
        self.delivery_complete_count = count
        self.last_delta_index = index
        self.delta_indices.append(index)
        combine_into(self.runs, batches, self.start_offset)


@dataclass(slots=True)
class Deletion:
    """A deletion with unwritten delta tombstones; the deltas follow `checkpoint_position`."""

    checkpoint_position: int
    delta_indices: list[int]


States = OrderedDict[SharePartitionKey, ShareState]
"""All keys of a shard, ordered by the position of their latest checkpoint, oldest first."""
