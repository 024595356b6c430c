"""What is noted of leader epochs, what is void after a truncation, and how both are stored."""

from __future__ import annotations

import pytest

from sharebroker_server.upstream_log.core.epochs import (
    MOST_ENTRIES,
    NAME,
    Divergence,
    EpochHistory,
    EpochStart,
    Truncation,
)


def history(*epochs: tuple[int, int]) -> EpochHistory:
    return EpochHistory(tuple(EpochStart(*each) for each in epochs))


@pytest.mark.parametrize(
    ("known", "read", "expected"),
    [
        ([], [(0, 0)], [(0, 0)]),
        ([(3, 50)], [(3, 60)], [(3, 50)]),  # known already
        ([(5, 1000)], [(5, 700)], [(5, 700)]),  # a reader that is behind
        ([(5, 1000)], [(4, 300), (5, 700)], [(4, 300), (5, 700)]),
        ([(4, 300)], [(6, 900)], [(4, 300), (6, 900)]),
        ([(4, 300)], [(-1, 900)], [(4, 300)]),  # the broker does not know epochs
        ([(0, 0)], [(1, 0)], [(1, 0)]),  # nothing was read of epoch 0
    ],
)
def test_the_lowest_offset_of_each_epoch_is_noted(
    known: list[tuple[int, int]], read: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    before = history(*known)
    after = before.with_read([EpochStart(*each) for each in read])
    assert list(after.epochs) == expected
    assert (after is before) == (expected == known)


def test_noted_epochs_are_bounded() -> None:
    many = history().with_read([EpochStart(n, 10 * n) for n in range(3 * MOST_ENTRIES)])
    assert len(many.epochs) == MOST_ENTRIES
    assert many.last_epoch == 3 * MOST_ENTRIES - 1


@pytest.mark.parametrize(
    ("noted", "answers", "offset"),
    [
        ([(3, 0)], {3: (3, 500)}, 500),  # the same epoch: nothing below its end differs
        ([(3, 0), (5, 400)], {5: (5, 700)}, 700),
        ([(3, 0), (5, 400)], {5: (3, 350)}, 350),  # epoch 5 is gone, and the end of epoch 3
        ([(3, 0), (5, 400)], {5: (3, 900)}, 400),  # the log went on in epoch 3 where we read epoch 5
        ([(3, 0), (5, 400)], {5: (4, 600), 3: (3, 200)}, 200),  # epoch 4 is none that we read
        ([(3, 0), (5, 400)], {5: (2, 100)}, 0),  # nothing that we read is left
        ([(3, 0)], {3: (-1, -1)}, None),  # a log without epochs
    ],
)
def test_the_divergence_is_where_the_log_has_another_epoch(
    noted: list[tuple[int, int]], answers: dict[int, tuple[int, int]], offset: int | None
) -> None:
    divergence = Divergence(history(*noted).epochs)
    asked = []
    while not divergence.ended:
        asked.append(divergence.epoch)
        divergence.answer(*answers[divergence.epoch])
    assert divergence.offset == offset
    assert asked == list(answers)


@pytest.mark.parametrize(
    ("current_epoch", "is_other", "offset"),
    [(4, True, 0), (5, False, None), (6, False, None), (-1, False, None)],
)
def test_a_leader_before_an_epoch_that_was_read_has_another_log(
    current_epoch: int, is_other: bool, offset: int | None
) -> None:
    divergence = Divergence(history((3, 0), (5, 400)).epochs)
    divergence.answer(-1, -1, current_epoch)
    assert divergence.ended
    assert (divergence.is_other, divergence.offset) == (is_other, offset)


def test_nothing_read_has_no_divergence() -> None:
    divergence = Divergence(())
    assert divergence.ended
    assert divergence.offset is None


@pytest.mark.parametrize(
    ("truncations", "loaded_under", "void"),
    [
        ([], 0, None),
        ([(7, 100)], 6, 100),
        ([(7, 100)], 7, None),  # loaded afterwards
        ([(7, 100), (9, 50)], 6, 50),
        ([(7, 100), (9, 50)], 8, 50),
        ([(7, 100), (9, 150)], 6, 100),
        ([(7, 100), (9, 150)], 8, 150),  # what was loaded after the first truncation is void from the second
        ([(7, 100), (9, 150)], 9, None),
    ],
)
def test_state_is_void_from_the_truncations_after_its_load(
    truncations: list[tuple[int, int]], loaded_under: int, void: int | None
) -> None:
    noted = EpochHistory()
    for lease_epoch, offset in truncations:
        noted = noted.truncated(offset, lease_epoch)
    assert noted.void_from(loaded_under) == void


def test_a_truncation_removes_epochs_that_begin_behind_it() -> None:
    assert list(history((3, 0), (5, 400)).truncated(400, 2).epochs) == [(3, 0)]


def test_joined_truncations_never_keep_void_state() -> None:
    noted = EpochHistory()
    for number in range(3 * MOST_ENTRIES):
        noted = noted.truncated(10 * number, number + 1)
    assert len(noted.truncations) == MOST_ENTRIES
    for loaded_under in range(3 * MOST_ENTRIES):
        void = noted.void_from(loaded_under)
        assert void is not None
        assert void <= 10 * loaded_under


def test_the_stored_form_is_read_again() -> None:
    noted = history((3, 0), (5, 1 << 40)).truncated(500, 9).with_read([EpochStart(6, 700)])
    assert EpochHistory.load({NAME: noted.packed(), "p1": b"of a producer"}) == noted
    assert noted.truncations == (Truncation(9, 500),)
    assert EpochHistory.load({}) == EpochHistory()


@pytest.mark.parametrize("stored", [b"\x01\x00\x00\x00\x00", b"\x00\x00\x01\x00\x00"])
def test_an_unknown_form_is_rejected(stored: bytes) -> None:
    with pytest.raises(ValueError, match="format"):
        EpochHistory.load({NAME: stored})
