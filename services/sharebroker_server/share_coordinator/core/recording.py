"""As which record a change of a share-partition's state is written: a delta or a checkpoint (seed 004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sharebroker_protocol.model import SharePartitionKey, StateBatch
from sharebroker_server.share_coordinator.core.combine import combine, count_below
from sharebroker_server.share_coordinator.core.commands import Initialize, Write
from sharebroker_server.share_coordinator.core.key import INT32_MAX
from sharebroker_server.share_coordinator.core.records import ShareCheckpoint, ShareDelta
from sharebroker_server.share_coordinator.core.state import ShareState

DELTA_RANGE: Final = 256
"""Delta indices run from 0 to 255 and roll over."""

EXTENDED_DELTA_RANGE: Final = 512
"""The range where 256 are too few for the deltas that may lie between two checkpoints (at most 500)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Deltas between checkpoints (0: every write is a checkpoint), and seconds until a key is cold."""

    deltas_per_checkpoint: int = 500
    cold_after: float = 300.0

    @property
    def delta_range(self) -> int:
        """How many delta indices there are before they roll over."""
        return DELTA_RANGE if self.deltas_per_checkpoint <= DELTA_RANGE else EXTENDED_DELTA_RANGE


def first_checkpoint(command: Initialize, state: ShareState | None, now: float) -> ShareCheckpoint:
    """The checkpoint that starts a state anew; `state` is what was there before.

    One that keeps only raises the state epoch of what is there: the answer to an earlier one was lost, and
    records may have been acknowledged since.
    """
    if state is not None and command.keeps(state):
        kept = cold_checkpoint(command.key, state, now)
        return kept._replace(state_epoch=command.state_epoch, create_timestamp_ms=kept.write_timestamp_ms)
    # the leader epoch outlives the state it was seen with: a leader from before stays fenced
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


def cold_checkpoint(key: SharePartitionKey, state: ShareState, now: float) -> ShareCheckpoint:
    """The same state again, nearer to the end of the log; it keeps the time it was created."""
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
    )


def change(
    state: ShareState, write: Write, leader_epoch: int, rules: Rules, now: float
) -> ShareDelta | ShareCheckpoint:
    """The record of a write; `leader_epoch` is the one to remember from now on."""
    start_offset, count = _advance(state, write)
    index = _next_delta_index(state, rules)
    runs = _runs_to_checkpoint(state, write.state_batches, start_offset, index, rules)
    now_ms = int(now * 1000)
    if runs is None:
        return ShareDelta(
            write.key,
            index,
            state.checkpoint_epoch,
            -1 if leader_epoch == state.leader_epoch else leader_epoch,
            -1 if start_offset == state.start_offset else start_offset,
            count,
            write.state_batches,
            now_ms,
        )
    return ShareCheckpoint(
        write.key,
        _next_epoch(state),
        state.state_epoch,
        leader_epoch,
        start_offset,
        count,
        now_ms,
        now_ms,
        tuple(runs),
    )


def _advance(state: ShareState, write: Write) -> tuple[int, int]:
    """Start offset and delivery complete count: neither goes back because a write came late (Kafka 4.4)."""
    start_offset, count = write.start_offset, write.delivery_complete_count
    if start_offset > state.start_offset:
        return start_offset, count
    if start_offset in (-1, state.start_offset):
        return state.start_offset, max(count, state.delivery_complete_count)
    return state.start_offset, state.delivery_complete_count


def _runs_to_checkpoint(
    state: ShareState, batches: tuple[StateBatch, ...], start_offset: int, index: int, rules: Rules
) -> Sequence[StateBatch] | None:
    """The runs of a checkpoint; None where a delta is to be written."""
    written = state.delta_indices
    if len(written) >= rules.deltas_per_checkpoint:
        return combine(state.runs, batches, start_offset)
    if written and index == written[0]:  # come round to a delta that still counts: the range was changed
        return combine(state.runs, batches, start_offset)
    if start_offset == state.start_offset:
        return None
    return _few_runs(state.runs, batches, start_offset)


def _few_runs(
    runs: list[StateBatch], batches: tuple[StateBatch, ...], start_offset: int
) -> Sequence[StateBatch] | None:
    """The runs, where the start offset moved and left no more of them than a delta would carry.

    Only runs grow; the rest of both records is a handful of numbers. Looks at runs only where few are left.
    """
    below = count_below(runs, start_offset)
    if len(runs) - below > len(batches):
        return None
    if not batches:
        return ()
    left = combine(runs[below:], batches, start_offset)
    return left if len(left) <= len(batches) else None


def _next_delta_index(state: ShareState, rules: Rules) -> int:
    index = state.last_delta_index + 1
    return index if index < rules.delta_range else 0


def _next_epoch(state: ShareState | None) -> int:
    """Checkpoint epochs start at 0 and wrap: only equality with the latest one counts."""
    return 0 if state is None else (state.checkpoint_epoch + 1) & INT32_MAX
