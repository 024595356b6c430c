"""The journal of failed records: what a write adds, its limit, and how it is restored."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import (
    FailedRecords,
    FailureNote,
    JournalUpdate,
    StateBatch,
    StateNote,
)
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules
from sharebroker_server.share_coordinator.core.commands import (
    Delete,
    DeleteTopicState,
    FailedReply,
    Initialize,
    ReadFailed,
    Write,
)
from sharebroker_server.share_coordinator.core.journal import Journal
from sharebroker_server.share_coordinator.core.state import ShareCheckpoint
from tests.testkit.tables import each
from tests.unit.share_coordinator.harness import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    KEY,
    TOPIC,
    Shard,
    batch,
    same,
    write,
)

REJECTED, EXHAUSTED, EXPIRED = 1, 2, 3


def entry(
    first: int, last: int, disposition: int = REJECTED, count: int = 1, time_ms: int = 5
) -> FailedRecords:
    return FailedRecords(first, last, disposition, count, time_ms, "m1", "bad")


def failing(*entries: FailedRecords, start: int = -1, limit: int = 3) -> Write:
    """Archives the records of entries and lists them."""
    batches = [StateBatch(each.first, each.last, ARCHIVED, each.delivery_count) for each in entries]
    return write(*batches, start=start)._replace(failed=JournalUpdate(entries, limit))


def opened(*writes: Write) -> Shard:
    shard = Shard()
    shard.run(Initialize(KEY, 1, 0))
    for one in writes:
        shard.run(one)
    return shard


def listed(shard: Shard) -> tuple[list[tuple[int, int]], int]:
    reply = shard.run(ReadFailed(KEY))
    assert isinstance(reply, FailedReply)
    return [(each.first, each.last) for each in reply.records], reply.dropped


def test_a_write_lists_failed_records() -> None:
    shard = opened(failing(entry(3, 4)), failing(entry(0, 1, EXHAUSTED, 5, 9)))
    expected = (entry(3, 4), entry(0, 1, EXHAUSTED, 5, 9))
    assert shard.run(ReadFailed(KEY)) == FailedReply(expected, 0)
    assert shard.replayed().run(ReadFailed(KEY)) == FailedReply(expected, 0)


def test_a_repeated_write_adds_nothing() -> None:
    once = failing(entry(3, 4))
    assert listed(opened(once, once)) == ([(3, 4)], 0)
    passed = failing(entry(0, 4), start=5)
    assert listed(opened(passed, passed)) == ([(0, 4)], 0)


@pytest.mark.parametrize(
    ("finished", "start", "expected"),
    [
        ([], 0, [(2, 9)]),
        ([batch(4, 5)], 0, [(2, 3), (6, 9)]),
        ([batch(0, 3)], 0, [(4, 9)]),
        ([batch(0, 2), batch(9, 12)], 0, [(3, 8)]),
        ([batch(4, 5, 0)], 0, [(2, 9)]),
        ([], 6, [(6, 9)]),
        ([batch(0, 12)], 0, []),
        ([], 10, []),
    ],
)
def test_offsets_that_were_finished_before_are_left_out(
    finished: list[StateBatch], start: int, expected: list[tuple[int, int]]
) -> None:
    shard = opened(write(*finished, start=start), failing(entry(2, 9)))
    assert listed(shard) == (expected, 0)


def test_archiving_records_are_listed_once() -> None:
    failed = entry(3, 4)
    archiving = StateBatch(3, 4, 3, 1, StateNote(failure=FailureNote(REJECTED, 5, "m1", "bad")))
    once = write(archiving)._replace(failed=JournalUpdate((failed,), 3))
    assert listed(opened(once, once, failing(failed))) == ([(3, 4)], 0)


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        (entry(3, 4, count=3), [(8, 9), (3, 4)]),
        (entry(4, 5, count=3), [(3, 3), (8, 9), (4, 5)]),
        (entry(0, 9, count=3), [(0, 9)]),
        (entry(5, 7, count=3), [(3, 4), (8, 9), (5, 7)]),
    ],
)
def test_a_record_that_fails_again_has_its_newest_entry(
    again: FailedRecords, expected: list[tuple[int, int]]
) -> None:
    undone = write(batch(0, 9, AVAILABLE, 2))  # a rejection without a response was undone
    shard = opened(failing(entry(3, 4), entry(8, 9)), undone, failing(again))
    assert listed(shard) == (expected, 0)
    assert listed(shard.replayed()) == (expected, 0)


def test_the_oldest_entries_are_dropped_and_counted() -> None:
    shard = opened(*[failing(entry(first, first + 1)) for first in range(0, 20, 4)])
    assert listed(shard) == ([(8, 9), (12, 13), (16, 17)], 4)
    shard.run(failing(entry(30, 30), limit=1))
    assert listed(shard) == ([(30, 30)], 10)
    assert listed(shard.replayed()) == ([(30, 30)], 10)


def test_a_leader_counts_entries_above_the_limit() -> None:
    update = JournalUpdate((entry(8, 9),), 1, dropped=7)
    shard = opened(failing(entry(0, 0)), write(batch(2, 9, ARCHIVED))._replace(failed=update))
    assert listed(shard) == ([(8, 9)], 8)


def test_expired_neighbours_become_one_entry() -> None:
    ages = [FailedRecords(first, first + 4, EXPIRED, 0, first) for first in (0, 5, 10)]
    shard = opened(*[failing(each) for each in ages], failing(FailedRecords(16, 16, EXPIRED, 0, 9)))
    reply = shard.run(ReadFailed(KEY))
    assert reply == FailedReply(
        (FailedRecords(0, 14, EXPIRED, 0, 10), FailedRecords(16, 16, EXPIRED, 0, 9)), 0
    )


def test_rejected_neighbours_stay_apart() -> None:
    assert listed(opened(failing(entry(0, 0)), failing(entry(1, 1)))) == ([(0, 0), (1, 1)], 0)


def test_a_checkpoint_does_not_repeat_the_journal() -> None:
    shard = opened(failing(entry(0, 4), start=5))
    shard.run(write(start=9))
    checkpoints = [record for record in shard.records() if isinstance(record, ShareCheckpoint)]
    assert [None if each.failed is None else len(each.failed.records) for each in checkpoints] == [
        None,
        1,
        None,
    ]
    assert listed(shard) == ([(0, 4)], 0)


@pytest.mark.parametrize("busy", [True, False])
def test_the_log_is_trimmed_once_a_cold_checkpoint_has_the_journal(busy: bool) -> None:
    shard = opened(failing(entry(0, 4), start=5))
    position = shard.end
    for start in range(6, 40):
        shard.run(write(start=start))
        assert shard.machine.trim_before() == position
    if busy:
        shard.tick(299.0)
        shard.run(write(start=40))
        assert [type(record) for record in shard.tick(1.0)] == [ShareCheckpoint]
    else:
        assert [type(record) for record in shard.tick(300.0)] == [ShareCheckpoint]
    assert shard.machine.trim_before() == shard.end
    shard.trim()
    assert (len(shard.log), listed(shard.replayed())) == (1, ([(0, 4)], 0))
    assert same(shard, shard.replayed(), [KEY])
    assert shard.tick(10_000.0) == []


def test_a_decreased_start_offset_removes_later_entries() -> None:
    shard = opened(failing(entry(0, 1), entry(4, 8), entry(9, 9), start=10))
    shard.run(Initialize(KEY, 2, 6))
    assert listed(shard) == ([(0, 1), (4, 5)], 0)
    assert listed(shard.replayed()) == ([(0, 1), (4, 5)], 0)


def test_an_initialisation_that_keeps_the_state_keeps_the_journal() -> None:
    shard = opened(failing(entry(4, 8)))
    shard.run(Initialize(KEY, 2, -1))
    shard.run(Initialize(KEY, 3, 0, keep_existing=True))
    assert listed(shard) == ([(4, 8)], 0)


@pytest.mark.parametrize("deletion", [Delete(KEY), DeleteTopicState(TOPIC)])
def test_a_deletion_deletes_the_journal(deletion: Delete | DeleteTopicState) -> None:
    shard = opened(failing(entry(4, 8)))
    shard.run(deletion)
    shard.run(Initialize(KEY, 2, 0))
    for owner in (shard, shard.replayed()):
        assert listed(owner) == ([], 0)
        assert owner.machine.trim_before() == shard.end


@each(
    "update",
    [
        JournalUpdate((), 0),
        JournalUpdate((), 1001),
        JournalUpdate((), 1, dropped=-1),
        JournalUpdate((entry(5, 4),), 1),
        JournalUpdate((entry(-1, 4),), 1),
        JournalUpdate((entry(0, 4, 0),), 1),
        JournalUpdate((entry(0, 4, 4),), 1),
        JournalUpdate((entry(0, 4, count=-1),), 1),
        JournalUpdate((entry(0, 4, time_ms=-1),), 1),
        JournalUpdate((entry(0, 4)._replace(reason="x" * 257),), 1),
        JournalUpdate((entry(0, 4)._replace(member_id="x" * 4097),), 1),
    ],
)
def test_invalid_updates_are_rejected(update: JournalUpdate) -> None:
    shard = opened()
    with pytest.raises(KafkaError) as error:
        shard.run(write(batch(0, 9, ARCHIVED))._replace(failed=update))
    assert error.value.code is ErrorCode.INVALID_REQUEST
    assert listed(shard) == ([], 0)


def test_a_complete_update_restores_a_journal() -> None:
    journal = Journal(1, 1)
    for first in range(5):
        journal.apply(JournalUpdate((entry(2 * first, 2 * first),), 3))
    restored = Journal(2, 2)
    restored.apply(JournalUpdate((entry(90, 91),), 3))
    restored.apply(journal.complete())
    assert (restored.entries, restored.dropped) == (journal.entries, 2)


def test_an_accepted_record_is_not_listed_by_a_late_write() -> None:
    shard = opened(write(batch(0, 4, ACKNOWLEDGED)), failing(entry(0, 4)))
    assert listed(shard) == ([], 0)


def test_writes_in_order_repeat_the_journal_only_after_many_deltas() -> None:
    """With an index a checkpoint contains the whole journal."""
    shard = Shard(CheckpointRules(4, indexed=True))
    shard.run(Initialize(KEY, 1, 0))
    shard.run(write(start=1))
    shard.run(failing(entry(1, 1), start=2))
    for start in range(3, 13):
        shard.run(write(start=start))
    kinds = [isinstance(record, ShareCheckpoint) for _, record in shard.log[3:]]
    assert kinds == [False] * 4 + [True] + [False] * 4 + [True]
    assert isinstance(shard.log[1][1], ShareCheckpoint)
