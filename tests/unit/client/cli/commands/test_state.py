"""Stored state as plain values and side by side."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from sharebroker.cli.commands.state import record_row, runs, side_by_side, state_document
from sharebroker.inspection import StoredState, StoredStateBatch, StoredStateRecord


def inspected() -> StoredState:
    checkpoint = StoredStateRecord(
        position=3,
        kind="checkpoint",
        checkpoint_epoch=1,
        start_offset=100,
        state_epoch=2,
        leader_epoch=5,
        delivery_complete_count=0,
    )
    delta = StoredStateRecord(
        position=4,
        kind="delta",
        checkpoint_epoch=1,
        delta_index=9,
        start_offset=-1,
        leader_epoch=5,
        delivery_complete_count=-1,
        state_batches=(
            StoredStateBatch(first_offset=100, last_offset=109, delivery_state=2, delivery_count=1),
        ),
    )
    folded = StoredStateRecord(start_offset=110, state_epoch=2, leader_epoch=5, checkpoint_epoch=1)
    return StoredState(shard=7, stream="s:log", records=(checkpoint, delta), folded=folded, consistent=True)


def test_delta_has_an_index_and_no_state_epoch() -> None:
    checkpoint, delta = (record_row(record) for record in inspected().records)
    assert (checkpoint["delta_index"], checkpoint["state_epoch"]) == (None, 2)
    assert (delta["delta_index"], delta["state_epoch"], delta["start_offset"]) == (9, None, None)
    assert runs(delta) == "100-109 acknowledged (1)"


def test_state_is_shown_side_by_side() -> None:
    console = Console(file=io.StringIO(), width=160)
    console.print(side_by_side(inspected()))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    heading = shown.splitlines()[0]
    assert heading.index("In the log") < heading.index("Replayed")
    assert "100-109 acknowledged (1)" in shown
    assert "Stream s:log (shard 7); the coordinator's live state agrees." in shown


def test_offsets_of_state_in_the_log_of_a_topic_are_shown() -> None:
    response = replace(inspected(), share_checkpoint_offset=120, earliest_share_offset=90)
    console = Console(file=io.StringIO(), width=160)
    console.print(side_by_side(response))
    assert isinstance(console.file, io.StringIO)
    assert "Stream s:log (Share Checkpoint Offset 120, Earliest Share Offset 90);" in console.file.getvalue()


def test_missing_or_inconsistent_state_is_shown() -> None:
    response = replace(inspected(), folded=None, consistent=False)
    console = Console(file=io.StringIO(), width=160)
    console.print(side_by_side(response))
    assert isinstance(console.file, io.StringIO)
    assert "no state" in console.file.getvalue()
    assert "DOES NOT AGREE" in console.file.getvalue()
    assert state_document(response)["folded"] is None
