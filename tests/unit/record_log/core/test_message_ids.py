"""Message ids of a partition: originals, expiry, the limit, and transactions."""

from __future__ import annotations

import pytest

from sharebroker_server.record_log.core.message_ids import (
    IdDraft,
    IdTable,
    Original,
    repeated_ranges,
    repeated_run,
)

A, B, C = 11, 12, 13
NOW, WINDOW = 10_000, 100


def draft(table: IdTable, now: int = NOW) -> IdDraft:
    return IdDraft(table, WINDOW, now)


def add(table: IdTable, base: int, *ids: int | None, now: int = NOW, transaction: int = -1) -> None:
    """Appends new records at the current time."""
    changes = draft(table, now)
    changes.add(base, ids, now, [False] * len(ids), transaction)
    table.commit(changes)


def found(table: IdTable, *ids: int | None, now: int = NOW, producer: int = -1) -> list[int | None]:
    """Returns the offsets of the originals of records that would be appended at 1000."""
    originals = draft(table, now).originals(ids, producer, 1000)
    return [None if original is None else original.offset for original in originals]


def test_the_first_record_with_an_id_is_the_original() -> None:
    table = IdTable()
    add(table, 5, A, None, B)
    assert found(table, B, C, None, A) == [7, None, None, 5]


def test_an_id_is_valid_for_the_window() -> None:
    table = IdTable()
    add(table, 5, A)
    assert found(table, A, now=NOW + WINDOW - 1) == [5]
    assert found(table, A, now=NOW + WINDOW) == [None]
    add(table, 6, now=NOW + WINDOW)
    assert len(table) == 0
    add(table, 9, A, now=NOW + WINDOW)
    assert found(table, A, now=NOW + WINDOW) == [9]


@pytest.mark.parametrize(("timestamp", "valid"), [(-1, NOW), (NOW + 50, NOW), (NOW - 50, NOW - 50)])
def test_the_window_begins_at_the_timestamp_but_not_later_than_the_append(timestamp: int, valid: int) -> None:
    table, changes = IdTable(), draft(IdTable())
    changes.add(5, [A], timestamp, [False])
    table.commit(changes)
    assert found(table, A, now=valid + WINDOW - 1) == [5]
    assert found(table, A, now=valid + WINDOW) == [None]


def test_pending_appends_and_records_of_one_append_are_compared() -> None:
    changes = draft(IdTable())
    changes.add(0, [A], NOW, [False])
    assert changes.originals([A, B, B], -1, 1) == [Original(0, NOW), None, Original(2, NOW)]


def test_a_lost_draft_leaves_no_ids() -> None:
    table = IdTable()
    draft(table).add(0, [A], NOW, [False])
    assert found(table, A) == [None]


def test_ids_of_duplicates_do_not_count() -> None:
    table = IdTable()
    add(table, 0, A)
    changes = draft(table, NOW + 50)
    changes.add(1, [A], NOW + 50, [True])
    table.commit(changes)
    assert found(table, A, now=NOW + WINDOW) == [None]


@pytest.mark.parametrize("separate", [True, False], ids=["two groups", "one group"])
@pytest.mark.parametrize("commit", [True, False])
def test_ids_of_a_transaction_count_for_others_after_its_commit(commit: bool, separate: bool) -> None:
    table, changes = IdTable(), draft(IdTable())
    if separate:
        add(table, 0, A, transaction=7)
        assert found(table, A, producer=7) == [0]
        assert found(table, A) == found(table, A, producer=8) == [None]
        changes = draft(table)
    else:
        changes.add(0, [A], NOW, [False], 7)
        assert changes.originals([A], 7, 1) == [Original(0, NOW)]
    changes.end(7, commit=commit)
    assert [bool(each) for each in changes.originals([A], 7, 2)] == [commit]
    changes.add(5, [B], NOW, [False], 7)
    table.commit(changes)
    assert found(table, A) == ([0] if commit else [None])
    assert found(table, B) == [None]
    assert found(table, B, producer=7) == [5]


def test_a_younger_record_beside_the_transaction_stays_the_original() -> None:
    table = IdTable()
    add(table, 0, A, transaction=7)
    add(table, 1, A, now=NOW + 10)
    changes = draft(table, NOW + 20)
    changes.end(7, commit=True)
    table.commit(changes)
    assert found(table, A, now=NOW + 20) == [1]


def test_beyond_the_limit_the_oldest_ids_are_removed_and_it_is_reported_once() -> None:
    table = IdTable(limit=2)
    add(table, 0, A)
    add(table, 1, B)
    assert not table.first_overflow()
    add(table, 2, C)
    assert found(table, A, B, C) == [None, 1, 2]
    assert table.first_overflow()
    add(table, 3, A)
    assert not table.first_overflow()
    assert len(table) == 2


def test_open_transactions_beyond_the_limit_have_no_ids() -> None:
    table = IdTable(limit=2)
    add(table, 0, A)
    add(table, 1, B, C, transaction=7)
    assert found(table, A, B, producer=7) == [None, 1]
    add(table, 3, A, transaction=8)
    assert len(table) == 0
    assert table.first_overflow()


@pytest.mark.parametrize(
    ("offsets", "run", "ranges"),
    [
        ([], None, []),
        ([None], None, []),
        ([4], 4, [(50, 50)]),
        ([4, 5, 6], 4, [(50, 52)]),
        ([4, 6], None, [(50, 51)]),
        ([5, 4], None, [(50, 51)]),
        ([4, None], None, [(50, 50)]),
        ([None, 4, 5, None, 6], None, [(51, 52), (54, 54)]),
    ],
)
def test_repeated_records_are_one_run_or_ranges(
    offsets: list[int | None], run: int | None, ranges: list[tuple[int, int]]
) -> None:
    originals = [None if offset is None else Original(offset, NOW) for offset in offsets]
    first = repeated_run(originals)
    assert (first and first.offset) == run
    assert repeated_ranges(originals, 50) == ranges
