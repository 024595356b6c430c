"""The worked examples of KIP-932's drafts, and what a log may look like beside."""

from __future__ import annotations

import pytest

from sharebroker_server.pipeline.core.cover import Piece, align, cover
from sharebroker_server.pipeline.core.replay import Entry, State, current_entries, replay
from tests.unit.pipeline.logs import ACCEPTED, ARCHIVED, AVAILABLE, Told, bare, checkpoint, delta, runs

START = checkpoint(at=130)
"""Starting state of a topic partition with latest offset 100."""

BATCHED = delta(at=131, start=110)
RELEASED = delta((110, 110, AVAILABLE, 1), at=132)
ACKNOWLEDGED_119 = delta((111, 118, AVAILABLE, 0), (119, 119, ACCEPTED, 1), at=133)
TIMED_OUT = delta((111, 112, AVAILABLE, 1), at=134)
ACKNOWLEDGED_113 = delta((113, 118, ACCEPTED, 1), at=135)
ACKNOWLEDGED_110 = delta((110, 110, ACCEPTED, 2), at=136, start=111)
ACKNOWLEDGED_111 = delta((111, 112, ACCEPTED, 2), at=137, start=120)
ANEW = checkpoint(at=137, epoch=2, start=120)
LATE = delta((115, 116, AVAILABLE, 1), (118, 122, ACCEPTED, 3), at=138)

STEPS: dict[str, tuple[Entry, int, list[Told]]] = {
    "start": (START, 100, []),
    "acknowledge 100-109": (BATCHED, 110, []),
    "release 110": (RELEASED, 110, [(110, 110, AVAILABLE, 1)]),
    "acknowledge 119": (
        ACKNOWLEDGED_119,
        110,
        [(110, 110, AVAILABLE, 1), (111, 118, AVAILABLE, 0), (119, 119, ACCEPTED, 1)],
    ),
    "lock timeout of 111, 112": (
        TIMED_OUT,
        110,
        [(110, 112, AVAILABLE, 1), (113, 118, AVAILABLE, 0), (119, 119, ACCEPTED, 1)],
    ),
    "acknowledge 113-118": (
        ACKNOWLEDGED_113,
        110,
        [(110, 112, AVAILABLE, 1), (113, 119, ACCEPTED, 1)],
    ),
    "acknowledge 110": (ACKNOWLEDGED_110, 111, [(111, 112, AVAILABLE, 1), (113, 119, ACCEPTED, 1)]),
    "acknowledge 111, 112": (ACKNOWLEDGED_111, 120, []),
    "fewer deliveries and a lower state do not count": (LATE, 120, [(120, 122, ACCEPTED, 3)]),
}


@pytest.mark.parametrize("step", range(1, len(STEPS) + 1), ids=list(STEPS))
def test_the_drafts_examples(step: int) -> None:
    taken = list(STEPS.values())[:step]
    _, start, told = taken[-1]
    assert replay(reversed([entry for entry, _, _ in taken])) == State(2, 5, start, runs(*told))


def test_a_checkpoint_begins_anew() -> None:
    before = [START, RELEASED, ACKNOWLEDGED_119]
    assert replay([*before, ANEW]) == State(2, 5, 120, ())
    assert current_entries([*before, ANEW, delta((1, 2, 0, 1), at=138), delta(at=139, epoch=2)]) == [
        ANEW,
        delta(at=139, epoch=2),
    ]


def test_a_delta_may_raise_the_leader_epoch() -> None:
    assert replay([START, delta(at=131, leader=7)]) == State(2, 7, 100, ())


def test_what_was_deleted_is_gone_until_it_begins_again() -> None:
    assert replay([START, bare("tombstone", 131), delta(at=132)]) is None
    assert replay([START, bare("tombstone", 131), ANEW]) == State(2, 5, 120, ())
    assert replay([]) is None


def test_a_start_that_nobody_chose_keeps_everything() -> None:
    log = [checkpoint((0, 3, ARCHIVED, 1), start=-1), delta((2, 5, ACCEPTED, 2), at=2)]
    assert replay(log) == State(2, 5, -1, runs((0, 1, ARCHIVED, 1), (2, 5, ACCEPTED, 2)))


def test_a_run_that_straddles_the_start_is_clipped() -> None:
    log = [checkpoint((100, 120, ACCEPTED, 1)), delta(at=2, start=110)]
    assert replay(log) == State(2, 5, 110, runs((110, 120, ACCEPTED, 1)))


def test_the_first_piece_covers() -> None:
    pieces = [Piece(3, 5, "a"), Piece(0, 9, "b"), Piece(4, 12, "c"), Piece(13, 13, "c"), Piece(20, 20, "b")]
    assert cover(pieces) == [
        Piece(0, 2, "b"),
        Piece(3, 5, "a"),
        Piece(6, 9, "b"),
        Piece(10, 13, "c"),
        Piece(20, 20, "b"),
    ]
    assert cover([]) == []


def test_two_sides_are_laid_beside_each_other() -> None:
    assert align([Piece(0, 4, "a")], [Piece(3, 6, 1), Piece(9, 9, 2)]) == [
        Piece(0, 2, ("a", None)),
        Piece(3, 4, ("a", 1)),
        Piece(5, 6, (None, 1)),
        Piece(9, 9, (None, 2)),
    ]
