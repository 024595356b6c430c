"""The rules of the note that lists which letters a dead letter topic has."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.share_partition_leader.core.letter_note import (
    MAX_LETTERS,
    MAX_RANGES,
    NOTE_PREFIX,
    LetterNote,
    Range,
    check_request,
    deltas,
    note_key,
    plan_letters,
    ranges_of,
    with_source_topic,
)


@pytest.mark.parametrize(
    ("written", "offsets", "still", "indexes", "after"),
    [
        pytest.param((), [3, 5], [(3, 5)], [0, 1], ((3, 3), (5, 5)), id="first letters"),
        pytest.param(((3, 3),), [3, 4, 5], [(3, 5)], [1, 2], ((3, 5),), id="a part is written"),
        pytest.param(((3, 5),), [3, 5], [(3, 5)], [], ((3, 5),), id="all are written"),
        pytest.param(
            ((3, 5), (8, 9)), [10], [(5, 8), (10, 10)], [0], ((5, 5), (8, 8), (10, 10)), id="pruned"
        ),
        pytest.param(((3, 5),), [], [], [], (), id="nothing is archiving"),
        pytest.param(((3, 5),), [4], [], [], ((4, 4),), id="the letters of the request stay"),
    ],
)
def test_letters_of_a_request(
    written: tuple[Range, ...],
    offsets: list[int],
    still: list[Range],
    indexes: list[int],
    after: tuple[Range, ...],
) -> None:
    planned = plan_letters(LetterNote(7, written, 1), (7, 2), offsets, still)
    sequence = 1 if after == written else 2
    assert (list(planned.indexes), planned.note) == (indexes, LetterNote(7, after, sequence))


def test_a_later_leader_fences_earlier_ones() -> None:
    note = plan_letters(LetterNote(7, ((3, 3),), 9), (8, 1), [], []).note
    assert note == LetterNote(8, (), 1)
    with pytest.raises(KafkaError) as caught:
        plan_letters(note, (7, 10), [3], [(3, 3)])
    assert caught.value.code is ErrorCode.FENCED_LEADER_EPOCH


def test_a_request_that_is_older_than_the_note_is_rejected() -> None:
    note = LetterNote(7, ((3, 3),), 5)
    with pytest.raises(KafkaError) as caught:
        plan_letters(note, (7, 4), [2], [(2, 3)])
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert plan_letters(note, (7, 5), [3], [(3, 3)]) == ([], note)


@pytest.mark.parametrize(
    ("offsets", "still"),
    [
        ([1, 1], [(1, 1)]),
        ([2, 1], [(1, 2)]),
        ([-1], []),
        (list(range(MAX_LETTERS + 1)), []),
        ([], [(2, 1)]),
        ([], [(0, 3), (3, 4)]),
        ([], [(-5, 3)]),
        ([], [(2 * number, 2 * number) for number in range(MAX_RANGES + 1)]),
    ],
)
def test_invalid_requests_are_rejected(offsets: list[int], still: list[Range]) -> None:
    with pytest.raises(KafkaError) as caught:
        check_request(offsets, still)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_valid_requests_are_accepted() -> None:
    check_request([], [])
    check_request(list(range(MAX_LETTERS)), [(0, 9), (10, 1_000_000)])
    check_request([], [(2 * number, 2 * number) for number in range(MAX_RANGES)])


def test_ranges_survive_storage() -> None:
    ranges = ((0, 0), (2, 9), (10, 10), (500, 70_000))
    assert ranges_of(list(deltas(ranges))) == ranges
    assert ranges_of([]) == ()
    with pytest.raises(ValueError, match="argument"):
        ranges_of([1])


def test_a_key_names_the_share_partition_and_the_epoch_of_the_failure() -> None:
    key = note_key("billing", "orders", 3, 7)
    assert key == f"{NOTE_PREFIX}billing\0orders\x003\x007"
    assert with_source_topic(key, {"orders": "copied"}) == note_key("billing", "copied", 3, 7)
    assert with_source_topic(key, {"bills": "copied"}) == key
    assert with_source_topic("to:5", {"5": "6"}) == "to:5"
