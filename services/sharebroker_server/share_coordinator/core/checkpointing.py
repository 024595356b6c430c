"""Chooses the record of a state change: a delta or a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sharebroker_protocol.model import JournalUpdate, SharePartitionKey, StateBatch
from sharebroker_server.share_coordinator.core.commands import INT32_MAX, Initialize, Write
from sharebroker_server.share_coordinator.core.state import (
    ShareCheckpoint,
    ShareDelta,
    ShareState,
    combine,
    count_below,
)

DELTA_RANGE: Final = 256
"""Delta indices 0..255: the range if at most 256 deltas may follow a checkpoint."""

EXTENDED_DELTA_RANGE: Final = 512
"""Delta indices 0..511: the range if more may follow (500 by default, which is also the maximum)."""


@dataclass(frozen=True, slots=True)
class CheckpointRules:
    """When a checkpoint is written.

    The largest number of deltas per checkpoint (0: every write is a checkpoint), and the seconds until a key
    is cold. `indexed`: the log is loaded by an index of the newest checkpoints and the deltas after them.
    Each checkpoint then contains the whole journal, and a deletion writes no tombstones of deltas. `early`: a
    checkpoint that has no more runs than a delta replaces it.
    """

    deltas_per_checkpoint: int = 500
    cold_after: float = 300.0
    indexed: bool = False
    early: bool = True

    @property
    def delta_range(self) -> int:
        """Returns the number of delta indices before the index wraps."""
        return DELTA_RANGE if self.deltas_per_checkpoint <= DELTA_RANGE else EXTENDED_DELTA_RANGE


def first_checkpoint(command: Initialize, state: ShareState | None, now: float) -> ShareCheckpoint:
    """Returns the checkpoint of a new initialisation; `state` is the existing state.

    If the command keeps existing state, only the state epoch rises: the response to an earlier Initialize was
    lost, and records may have been acknowledged since.
    """
    if state is not None and command.keeps(state):
        kept = cold_checkpoint(command.key, state, now)
        return kept._replace(
            state_epoch=command.state_epoch,
            create_timestamp_ms=kept.write_timestamp_ms,
            kept_since=state.kept_since or state.state_epoch,
        )
    # The leader epoch survives the state, so that a leader of the earlier state stays fenced.
    leader_epoch = 0 if state is None else state.leader_epoch
    start_offset, now_ms = command.start_offset, int(now * 1000)
    return ShareCheckpoint(
        command.key,
        _next_epoch(state),
        command.state_epoch,
        leader_epoch,
        start_offset,
        -1 if start_offset == -1 else 0,
        now_ms,
        now_ms,
        (),
    )


def cold_checkpoint(
    key: SharePartitionKey, state: ShareState, now: float, journal: JournalUpdate | None = None
) -> ShareCheckpoint:
    """Returns a checkpoint with the same state and creation time, to be written at the end of the log.

    `journal` is the complete one, if there is any.
    """
    return ShareCheckpoint(
        key,
        _next_epoch(state),
        state.state_epoch,
        state.leader_epoch,
        state.start_offset,
        state.delivery_complete_count,
        state.create_timestamp_ms,
        int(now * 1000),
        tuple(state.runs),
        journal,
        state.kept_since,
    )


def change(
    state: ShareState,
    write: Write,
    leader_epoch: int,
    rules: CheckpointRules,
    now: float,
    failed: JournalUpdate | None = None,
) -> ShareDelta | ShareCheckpoint:
    """Returns the record of a write; `leader_epoch` and `failed` are to be stored."""
    key, _, _, start_offset, count, batches, _, replaces = write
    index = _next_delta_index(state, rules)
    runs: Sequence[StateBatch] | None
    if replaces:
        runs = combine((), batches, start_offset)
    else:
        start_offset, count = _advance(state, start_offset, count)
        runs = _runs_to_checkpoint(state, batches, start_offset, index, rules)
    now_ms = int(now * 1000)
    if runs is None:
        return ShareDelta(
            key,
            index,
            state.checkpoint_epoch,
            -1 if leader_epoch == state.leader_epoch else leader_epoch,
            -1 if start_offset == state.start_offset else start_offset,
            count,
            batches,
            now_ms,
            failed,
        )
    return ShareCheckpoint(
        key,
        _next_epoch(state),
        state.state_epoch,
        leader_epoch,
        start_offset,
        count,
        now_ms,
        now_ms,
        tuple(runs),
        failed,
        state.kept_since,
    )


def _advance(state: ShareState, start_offset: int, count: int) -> tuple[int, int]:
    """Returns start offset and delivery complete count; a delayed write lowers neither (Kafka 4.4)."""
    stored = state.start_offset
    if start_offset > stored:
        return start_offset, count
    if start_offset in (-1, stored):
        return stored, max(count, state.delivery_complete_count)
    return stored, state.delivery_complete_count


def _runs_to_checkpoint(
    state: ShareState, batches: tuple[StateBatch, ...], start_offset: int, index: int, rules: CheckpointRules
) -> Sequence[StateBatch] | None:
    """Returns the runs of a checkpoint, or None if a delta is to be written."""
    written = state.delta_indices
    if len(written) >= rules.deltas_per_checkpoint:
        return combine(state.runs, batches, start_offset)
    if written and index == written[0]:  # in use by a delta of this checkpoint: the range shrank
        return combine(state.runs, batches, start_offset)
    if start_offset == state.start_offset or not rules.early:
        return None
    return _few_runs(state.runs, batches, start_offset)


def _few_runs(
    runs: list[StateBatch], batches: tuple[StateBatch, ...], start_offset: int
) -> Sequence[StateBatch] | None:
    """Returns the runs if the start offset moved and they are no more than the batches of a delta, else None.

    Only the number of runs differs much between the two records. Combines runs only if few remain.
    """
    below = count_below(runs, start_offset)
    if len(runs) - below > len(batches):
        return None
    if not batches:
        return ()
    remaining = combine(runs[below:], batches, start_offset)
    return remaining if len(remaining) <= len(batches) else None


def _next_delta_index(state: ShareState, rules: CheckpointRules) -> int:
    index = state.last_delta_index + 1
    return index if index < rules.delta_range else 0


def _next_epoch(state: ShareState | None) -> int:
    """Returns the next checkpoint epoch. Epochs start at 0 and wrap: only equality with the latest counts."""
    return 0 if state is None else (state.checkpoint_epoch + 1) & INT32_MAX
