"""Which request gets which answer (reference 4.3), state unchanged where it is refused."""

from __future__ import annotations

from copy import deepcopy

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateBatch
from sharebroker_server.share_coordinator.core.commands import (
    Command,
    Delete,
    DeleteTopic,
    Initialize,
    Read,
    ReadReply,
    Summarize,
    Summary,
)
from tests.unit.share_coordinator.harness import KEY, OTHER_TOPIC, TOPIC, Shard, batch, write

ABSENT = "absent"
FRESH = "initialized at state epoch 5"
LED = "read by leader epoch 3"
AGAIN = "initialized again at state epoch 7"
GONE = "deleted"


def shard_in(situation: str) -> Shard:
    shard = Shard()
    if situation != ABSENT:
        shard.run(Initialize(KEY, 5, 100))
    if situation in (LED, AGAIN, GONE):
        shard.run(Read(KEY, 3))
    if situation == AGAIN:
        shard.run(Initialize(KEY, 7, 50))
    if situation == GONE:
        shard.run(Delete(KEY))
    return shard


BAD = ErrorCode.INVALID_REQUEST
STATE = ErrorCode.FENCED_STATE_EPOCH
LEADER = ErrorCode.FENCED_LEADER_EPOCH

TABLE: list[tuple[str, Command, ErrorCode | None]] = [
    # Initialize: only the state epoch is compared
    (ABSENT, Initialize(KEY, 0, -1), None),
    (ABSENT, Initialize(KEY, 0, 0), None),
    (ABSENT, Initialize(KEY, -1, 0), BAD),
    (ABSENT, Initialize(KEY, 0, -2), BAD),
    (FRESH, Initialize(KEY, 4, 0), STATE),
    (FRESH, Initialize(KEY, 5, 0), None),
    (FRESH, Initialize(KEY, 6, 0), None),
    (FRESH, Initialize(KEY, -1, 0), BAD),
    (AGAIN, Initialize(KEY, 6, 0), STATE),
    (AGAIN, Initialize(KEY, 7, 0), None),
    (GONE, Initialize(KEY, 1, 0), None),
    # Read: only the leader epoch
    (ABSENT, Read(KEY, 0), BAD),
    (ABSENT, Read(KEY, -1), BAD),
    (FRESH, Read(KEY, 0), None),
    (FRESH, Read(KEY, 9), None),
    (FRESH, Read(KEY, -1), BAD),
    (LED, Read(KEY, 2), LEADER),
    (LED, Read(KEY, 3), None),
    (LED, Read(KEY, 4), None),
    (AGAIN, Read(KEY, 2), LEADER),
    (AGAIN, Read(KEY, 3), None),
    (GONE, Read(KEY, 9), BAD),
    # Write: leader epoch first, then state epoch
    (ABSENT, write(), BAD),
    (FRESH, write(state_epoch=5, leader_epoch=0), None),
    (FRESH, write(state_epoch=6, leader_epoch=9), None),
    (FRESH, write(state_epoch=4, leader_epoch=0), STATE),
    (FRESH, write(state_epoch=-1, leader_epoch=0), BAD),
    (FRESH, write(state_epoch=5, leader_epoch=-1), BAD),
    (FRESH, write(state_epoch=5, start=-2), BAD),
    (FRESH, write(state_epoch=5, count=-2), BAD),
    (LED, write(state_epoch=5, leader_epoch=2), LEADER),
    (LED, write(state_epoch=4, leader_epoch=2), LEADER),
    (LED, write(state_epoch=4, leader_epoch=3), STATE),
    (LED, write(state_epoch=5, leader_epoch=3), None),
    (AGAIN, write(state_epoch=5, leader_epoch=3), STATE),
    (AGAIN, write(state_epoch=7, leader_epoch=2), LEADER),
    (AGAIN, write(state_epoch=7, leader_epoch=3), None),
    (GONE, write(state_epoch=5, leader_epoch=3), BAD),
    # State batches
    (FRESH, write(batch(100, 100), state_epoch=5), None),
    (FRESH, write(batch(100, 109, 0, 0), state_epoch=5), None),
    (FRESH, write(batch(100, 109, 3, 1), state_epoch=5), None),
    (FRESH, write(batch(100, 109, 4, 32767), state_epoch=5), None),
    (FRESH, write(batch(109, 100), state_epoch=5), BAD),
    (FRESH, write(batch(-1, 100), state_epoch=5), BAD),
    (FRESH, write(batch(100, 109, 1), state_epoch=5), BAD),
    (FRESH, write(batch(100, 109, 5), state_epoch=5), BAD),
    (FRESH, write(batch(100, 109, -1), state_epoch=5), BAD),
    (FRESH, write(batch(100, 109, 2, -1), state_epoch=5), BAD),
    (FRESH, write(batch(100, 109, 2, 32768), state_epoch=5), BAD),
    (FRESH, write(batch(100, 109), batch(120, 119), state_epoch=5), BAD),
    # Delete: of an epoch, only what is not newer
    (ABSENT, Delete(KEY, 0), None),
    (ABSENT, Delete(KEY, -1), BAD),
    (FRESH, Delete(KEY, 4), STATE),
    (FRESH, Delete(KEY, 5), None),
    (AGAIN, Delete(KEY, 6), STATE),
    (AGAIN, Delete(KEY, 8), None),
    (GONE, Delete(KEY, 0), None),
    # Delete of any epoch, Summarize: never refused
    *[(situation, Delete(KEY), None) for situation in (ABSENT, FRESH, LED, AGAIN, GONE)],
    *[(situation, Summarize(KEY), None) for situation in (ABSENT, FRESH, LED, AGAIN, GONE)],
    *[(situation, DeleteTopic(TOPIC), None) for situation in (ABSENT, FRESH, LED, AGAIN, GONE)],
]


@pytest.mark.parametrize(("situation", "command", "code"), TABLE)
def test_who_is_refused(situation: str, command: Command, code: ErrorCode | None) -> None:
    shard = shard_in(situation)
    before, length = deepcopy(shard.state()), len(shard.log)
    if code is None:
        shard.run(command)
        return
    with pytest.raises(KafkaError) as refused:
        shard.run(command)
    assert refused.value.code is code
    assert (shard.state(), len(shard.log)) == (before, length)


@pytest.mark.parametrize(
    ("command", "metadata"),
    [
        (Initialize(KEY, 4, 0), {"stored_state_epoch": "5", "state_epoch": "4"}),
        (Read(KEY, 2), {"stored_leader_epoch": "3", "leader_epoch": "2"}),
        (write(state_epoch=4, leader_epoch=3), {"stored_state_epoch": "5", "state_epoch": "4"}),
    ],
)
def test_a_fenced_caller_learns_both_epochs(command: Command, metadata: dict[str, str]) -> None:
    with pytest.raises(KafkaError) as refused:
        shard_in(LED).run(command)
    assert refused.value.metadata == {"key": str(KEY), **metadata}


SUMMARIES = [
    (ABSENT, Summary(0, 0, -1, -1)),
    (FRESH, Summary(5, 0, 100, 0)),
    (LED, Summary(5, 3, 100, 0)),
    (AGAIN, Summary(7, 3, 50, 0)),
    (GONE, Summary(0, 0, -1, -1)),
]


@pytest.mark.parametrize(("situation", "summary"), SUMMARIES)
def test_summaries_write_nothing(situation: str, summary: Summary) -> None:
    shard = shard_in(situation)
    length = len(shard.log)
    assert shard.run(Summarize(KEY)) == summary
    assert len(shard.log) == length


def test_unset_start_offset_leaves_the_count_unset() -> None:
    shard = Shard()
    shard.run(Initialize(KEY, 1, -1))
    assert shard.run(Summarize(KEY)) == Summary(1, 0, -1, -1)


@pytest.mark.parametrize(
    ("again", "wiped"),
    [
        (Initialize(KEY, 1, -1), False),  # asked again after a lost answer: what was written stays
        (Initialize(KEY, 1, 110), False),
        (Initialize(KEY, 1, 50), True),  # Kafka: another start, at whatever epoch
        (
            Initialize(KEY, 1, 50, start_has_epoch=True),
            False,
        ),  # asked for before; the start went on from there
        (Initialize(KEY, 2, 110, start_has_epoch=True), True),
        (Initialize(KEY, 2, -1), False),  # asked again by the next coordinator, at a higher epoch
        (Initialize(KEY, 2, 110), True),
        # a partition that was added starts at 0, asked again its state stays all the same
        (Initialize(KEY, 1, 0, keep_existing=True), False),
        (Initialize(KEY, 2, 0, keep_existing=True), False),
        # what was deleted, and came back by a late request
        (Initialize(KEY, 2, -1, since_epoch=1), False),
        (Initialize(KEY, 2, -1, since_epoch=2), True),
        (Initialize(KEY, 2, 0, keep_existing=True, since_epoch=2), True),
    ],
)
def test_initialize_asked_again(again: Initialize, wiped: bool) -> None:
    shard = Shard()
    shard.run(Initialize(KEY, 1, -1))
    shard.run(write(batch(110, 112, 0), start=110))
    length = len(shard.log)
    shard.run(again)
    state = shard.state()
    assert state is not None
    assert (state.runs == []) is wiped
    assert state.state_epoch == again.state_epoch
    assert (len(shard.log) > length) is (wiped or again.state_epoch > 1)
    assert state.start_offset == (again.start_offset if wiped else 110)


def test_initialize_anew_starts_a_new_checkpoint_epoch_and_forgets_the_runs() -> None:
    shard = Shard()
    shard.run(Initialize(KEY, 1, 0))
    shard.run(write(batch(0, 9, 0)))
    shard.run(Initialize(KEY, 2, 500))
    state = shard.state()
    assert state is not None
    assert (state.checkpoint_epoch, state.state_epoch, state.start_offset) == (1, 2, 500)
    assert (state.runs, state.delivery_complete_count) == ([], 0)


def test_a_leader_reads_what_was_written_and_raises_its_epoch_once() -> None:
    shard = shard_in(FRESH)
    shard.run(write(batch(100, 104), batch(110, 111, 0, 2), state_epoch=5, leader_epoch=3))
    length = len(shard.log)
    expected = ReadReply(5, 100, (StateBatch(100, 104, 2, 1), StateBatch(110, 111, 0, 2)))
    for leader_epoch, more in ((3, 1), (3, 0), (4, 1), (4, 0)):
        assert shard.run(Read(KEY, leader_epoch)) == expected
        assert len(shard.log) - length == more
        length = len(shard.log)
    assert shard.run(Summarize(KEY)) == Summary(5, 4, 100, 0)


def test_writes_change_neither_epoch() -> None:
    shard = shard_in(LED)
    shard.run(write(batch(100, 100), state_epoch=9, leader_epoch=9))
    assert shard.run(Summarize(KEY)) == Summary(5, 3, 100, 0)


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [
        (-1, -1, (100, 5)),
        (-1, 7, (100, 7)),
        (-1, 3, (100, 5)),
        (100, 7, (100, 7)),
        (100, 3, (100, 5)),
        (100, -1, (100, 5)),
        (99, 9, (100, 5)),
        (0, 9, (100, 5)),
        (101, 3, (101, 3)),
        (101, -1, (101, -1)),
        (200, 0, (200, 0)),
    ],
)
@pytest.mark.parametrize("batches", [(), (batch(120, 121),)])
def test_neither_start_offset_nor_count_goes_back(
    start: int, count: int, expected: tuple[int, int], batches: tuple[StateBatch, ...]
) -> None:
    shard = Shard()
    shard.run(Initialize(KEY, 1, 100))
    shard.run(write(count=5))
    shard.run(write(*batches, start=start, count=count))
    for view in (shard, shard.replayed()):
        state = view.state()
        assert state is not None
        assert (state.start_offset, state.delivery_complete_count) == expected


def test_a_topic_goes_with_all_its_share_partitions_and_no_others() -> None:
    shard = Shard()
    keys = [SharePartitionKey(group, TOPIC, n) for group in ("a", "b") for n in range(3)]
    other = SharePartitionKey("a", OTHER_TOPIC, 0)
    for key in (*keys, other):
        shard.run(Initialize(key, 1, 0))
        shard.run(write(batch(0, 0, 0), key=key))
    assert shard.run(DeleteTopic(TOPIC)) == len(keys)
    assert [key for key in (*keys, other) if shard.state(key)] == [other]
    assert shard.run(DeleteTopic(TOPIC)) == 0
    assert shard.machine.next_deadline() == shard.replayed().machine.next_deadline()
