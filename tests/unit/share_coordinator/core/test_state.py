"""The state in memory follows checkpoints and deltas."""

from __future__ import annotations

import pytest

from sharebroker_server.share_coordinator.core.records import ShareCheckpoint, ShareDelta
from sharebroker_server.share_coordinator.core.state import ShareState
from tests.unit.share_coordinator.harness import KEY, batch

CHECKPOINT = ShareCheckpoint(KEY, 2, 3, 4, 100, 5, 1000, 1000, (batch(100, 109),))


def state(checkpoint: ShareCheckpoint = CHECKPOINT) -> ShareState:
    return ShareState.of(checkpoint, 17, 8)


def test_checkpoint_is_the_complete_state() -> None:
    found = state()
    assert (found.checkpoint_epoch, found.state_epoch, found.leader_epoch) == (2, 3, 4)
    assert (found.start_offset, found.delivery_complete_count, found.runs) == (100, 5, [batch(100, 109)])
    assert (found.checkpoint_position, found.last_delta_index, found.delta_indices) == (17, 8, [])


@pytest.mark.parametrize(("written", "cold"), [(1000, False), (2000, True)])
def test_cold_checkpoint_repeats_an_older_one(written: int, cold: bool) -> None:
    assert state(CHECKPOINT._replace(write_timestamp_ms=written)).cold is cold


def test_delta_changes_what_it_contains() -> None:
    found = state()
    found.apply(ShareDelta(KEY, 9, 2, 6, 105, 7, (batch(110, 112),)))
    assert (found.leader_epoch, found.start_offset, found.delivery_complete_count) == (6, 105, 7)
    assert [(run.first, run.last) for run in found.runs] == [(105, 112)]


def test_minus_one_in_a_delta_means_unchanged() -> None:
    found = state()
    found.apply(ShareDelta(KEY, 9, 2, -1, -1, -1, ()))
    assert (found.leader_epoch, found.start_offset, found.runs) == (4, 100, [batch(100, 109)])
    assert found.delivery_complete_count == -1


def test_delta_indices_since_the_checkpoint_are_collected() -> None:
    found = state()
    for index in (9, 0):
        found.apply(ShareDelta(KEY, index, 2, -1, -1, 5, ()))
    assert (found.last_delta_index, found.delta_indices) == (0, [9, 0])


def test_states_are_equal_whatever_the_last_delta_index() -> None:
    assert ShareState.of(CHECKPOINT, 17, 8) == ShareState.of(CHECKPOINT, 17, -1)
    assert ShareState.of(CHECKPOINT, 17, 8) != ShareState.of(CHECKPOINT, 18, 8)
