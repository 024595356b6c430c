"""Notes of copies: which group receives them, and of which records they are copies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.record_log.core.addressed import (
    AlreadyCopiedError,
    CopiedRun,
    CopyAddress,
    check_not_copied,
    check_not_redriven,
    copied,
    copies_in,
    find_copy,
    hidden_from,
    note_of,
    redrive_note,
    redriven,
)
from sharebroker_server.record_log.core.notes import Note, Notes

A, B = CopyAddress("a", "r1"), CopyAddress("b", "r1")


def notes_of(*appends: tuple[list[int], int, CopyAddress]) -> Notes:
    """The notes of appends: sources, base offset, address."""
    notes: dict[str, Note] = {"other": Note(b"", 1000, 1020)}
    for append in appends:
        notes |= note_of(*append)
    return Notes(notes)


NOTES = notes_of(([3, 4, 9], 20, A), ([1], 30, B), ([3], 31, CopyAddress("a", "r2")))


@pytest.mark.parametrize(
    ("group", "hidden"),
    [("a", [(30, 30)]), ("b", [(20, 22), (31, 31)]), ("c", [(20, 22), (30, 30), (31, 31)])],
)
def test_copies_are_hidden_from_other_groups(group: str, hidden: list[tuple[int, int]]) -> None:
    assert list(hidden_from(NOTES, group, 0, 200)) == hidden


def test_only_copies_in_the_range_are_found() -> None:
    assert list(copies_in(NOTES, 22, 31)) == [(20, 22), (30, 30)]
    assert list(copies_in(NOTES, 23, 30)) == []
    assert list(hidden_from(NOTES, "c", 1000, 1021)) == [], "a note of another kind hides nothing"


def test_a_group_whose_name_begins_alike_is_another() -> None:
    notes = notes_of(([1], 20, CopyAddress("ab", "r")), ([1], 21, CopyAddress("a\0b", "r")))
    assert list(hidden_from(notes, "a", 0, 99)) == [(20, 20), (21, 21)]


def test_copied_records_are_listed_by_group_and_request() -> None:
    assert copied(NOTES.items(), "a") == [CopiedRun(3, 4, 20), CopiedRun(9, 9, 22), CopiedRun(3, 3, 31)]
    assert copied(NOTES.items(), "a", "r2") == [CopiedRun(3, 3, 31)]
    assert copied(NOTES.items(), "a", "r") == copied(NOTES.items(), "c") == []


@pytest.mark.parametrize(("offset", "copy"), [(3, 31), (4, 21), (9, 22), (5, None)])
def test_the_newest_copy_of_a_record_counts(offset: int, copy: int | None) -> None:
    assert find_copy(copied(NOTES.items(), "a"), offset) == copy


@pytest.mark.parametrize(("sources", "address"), [([4], A), ([8, 9], A), ([1, 2], B)])
def test_a_request_copies_a_record_once(sources: list[int], address: CopyAddress) -> None:
    with pytest.raises(AlreadyCopiedError) as caught:
        check_not_copied(NOTES.items(), sources, address)
    assert caught.value.code is ErrorCode.DUPLICATE_RESOURCE


@pytest.mark.parametrize(("sources", "address"), [([5, 8], A), ([3], B), ([4], CopyAddress("a", "r2"))])
def test_other_requests_and_groups_may_copy_it_again(sources: list[int], address: CopyAddress) -> None:
    check_not_copied(NOTES.items(), sources, address)


@given(st.lists(st.tuples(st.sets(st.integers(0, 30), min_size=1), st.sampled_from("abc")), max_size=8))
def test_copies_agree_with_a_list_of_all_records(appends: list[tuple[set[int], str]]) -> None:
    """The model has one entry for each copy: its offset, its source and its group."""
    model: list[tuple[int, int, str]] = []
    made: list[tuple[list[int], int, CopyAddress]] = []
    base = 40
    for sources, group in appends:
        made.append((sorted(sources), base, CopyAddress(group, "r")))
        model += [(base + index, source, group) for index, source in enumerate(sorted(sources))]
        base += len(sources) + 1
    notes = notes_of(*made)
    for group in "abcd":
        hidden = [
            offset for first, last in hidden_from(notes, group, 0, 999) for offset in range(first, last + 1)
        ]
        assert hidden == [offset for offset, _, other in model if other != group]
        runs = copied(notes.items(), group)
        for source in range(31):
            copies = [
                offset for offset, copied_from, other in model if (copied_from, other) == (source, group)
            ]
            assert find_copy(runs, source) == max(copies, default=None)


def test_a_redrive_is_found_by_its_letters_and_hides_nothing() -> None:
    address, all_groups = CopyAddress("g", "dlq/0/"), CopyAddress("", "dlq/0/")
    first = redrive_note([7, 8, 4], 10, address) | note_of([1, 1, 2], 10, address)
    notes = Notes(first | redrive_note([5], 13, all_groups))
    assert redriven(notes.items(), address) == [(7, 8, 10), (4, 4, 12)]
    assert redriven(notes.items(), all_groups) == [(5, 5, 13)]
    assert redriven(notes.items(), CopyAddress("g", "dlq/1/")) == []
    assert copied(notes.items(), "g") == [(1, 1, 10), (1, 2, 11)]
    assert list(hidden_from(notes, "h", 0, 99)) == [(10, 12)]
    assert list(hidden_from(notes, "g", 0, 99)) == []
    assert set(copies_in(notes, 0, 99)) == {(10, 12), (13, 13)}
    check_not_redriven(notes.items(), [9], address)
    with pytest.raises(AlreadyCopiedError):
        check_not_redriven(notes.items(), [9, 4], address)
