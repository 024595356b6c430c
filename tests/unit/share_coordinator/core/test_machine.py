"""Permitted commands, due checkpoints, records that replay ignores, and the trim position."""

from __future__ import annotations

from copy import deepcopy

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import FailureNote, SharePartitionKey, StateBatch, StateNote
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules
from sharebroker_server.share_coordinator.core.commands import (
    NO_LEASE,
    Command,
    Delete,
    DeleteTopicState,
    Initialize,
    LeaseRequired,
    Read,
    ReadReply,
    Summarize,
    SummaryReply,
)
from sharebroker_server.share_coordinator.core.machine import MAX_RECORDS_PER_DEADLINE
from sharebroker_server.share_coordinator.core.state import (
    CheckpointTombstone,
    DeltaTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
)
from tests.testkit.tables import each
from tests.unit.share_coordinator.harness import KEY, NOW, OTHER_TOPIC, TOPIC, Shard, batch, read, same, write

NOW_MS = int(NOW * 1000)
KEYS = [SharePartitionKey("g", TOPIC, n) for n in range(4)]


def delta(epoch: int, index: int = 0, first: int = 5) -> ShareDelta:
    return ShareDelta(KEY, index, epoch, -1, -1, 0, (batch(first, first, 0),))


def checkpoint(epoch: int) -> ShareCheckpoint:
    return ShareCheckpoint(KEY, epoch, 1, 0, 0, 0, NOW_MS, NOW_MS, ())


GONE = CheckpointTombstone(KEY)


@each(
    "records, firsts",
    [
        ([], None),
        ([delta(0)], None),
        ([GONE], None),
        ([DeltaTombstone(KEY, 0)], None),
        ([checkpoint(0)], []),
        ([checkpoint(0), delta(0)], [5]),
        ([checkpoint(0), delta(0), delta(0, 1, 7)], [5, 7]),
        ([checkpoint(1), delta(0)], []),
        ([checkpoint(0), delta(1)], []),
        ([delta(1), checkpoint(1)], []),
        ([checkpoint(0), delta(0), checkpoint(1)], []),
        ([checkpoint(0), delta(0), checkpoint(1), delta(0, 1, 7), delta(1, 2, 9)], [9]),
        ([checkpoint(0), delta(0), GONE], None),
        ([checkpoint(0), delta(0), GONE, delta(0, 1)], None),
        ([checkpoint(0), delta(0), GONE, DeltaTombstone(KEY, 0)], None),
        ([checkpoint(0), delta(0), GONE, DeltaTombstone(KEY, 9), DeltaTombstone(KEY, 0)], None),
        ([checkpoint(0), GONE, checkpoint(0), delta(0)], [5]),
        ([checkpoint(0), delta(0), GONE, DeltaTombstone(KEY, 0), checkpoint(0)], []),
    ],
)
def test_replay_applies_the_latest_checkpoint_and_the_deltas_of_its_epoch(
    records: list[ShareRecord], firsts: list[int] | None
) -> None:
    shard = Shard(log=enumerate(records, 1))
    state = shard.state()
    assert (None if state is None else [run.first for run in state.runs]) == firsts


def test_idle_key_gets_one_cold_checkpoint() -> None:
    shard = Shard(CheckpointRules(cold_after=300))
    shard.run(Initialize(KEY, 1, 0))
    shard.run(write(batch(0, 4, 0), count=2))
    assert shard.machine.next_deadline() == NOW + 300
    assert shard.machine.on_deadline(NOW + 299).records == ()
    expected = ShareCheckpoint(KEY, 1, 1, 0, 0, 2, NOW_MS, NOW_MS + 300_000, (batch(0, 4, 0),))
    assert shard.tick(300) == [expected]
    assert shard.machine.next_deadline() is None
    assert shard.machine.on_deadline(NOW + 10_000).records == ()
    assert same(shard, shard.replayed(), [KEY])


def test_cold_keys_are_checkpointed_while_one_is_warm() -> None:
    """Otherwise the first cold key would block trimming indefinitely."""
    shard = Shard(CheckpointRules(cold_after=300))
    for key in KEYS:
        shard.run(Initialize(key, 1, 0))
    shard.tick(300)
    assert shard.machine.next_deadline() is None
    shard.tick(100)
    shard.run(write(start=10, key=KEYS[2]))
    assert shard.machine.next_deadline() == NOW + 600
    made = shard.tick(200)
    assert [record.key for record in made] == [KEYS[0], KEYS[1], KEYS[3]]
    assert shard.machine.trim_before() == 9  # the write
    made = shard.tick(100)
    assert [record.key for record in made] == [KEYS[2]]
    assert shard.machine.next_deadline() is None


def test_a_key_that_is_written_is_not_cold() -> None:
    shard = Shard(CheckpointRules(cold_after=300))
    shard.run(Initialize(KEYS[0], 1, 0))
    for step in range(1, 5):
        shard.tick(200)
        shard.run(write(start=step, key=KEYS[0]))
    assert len(shard.log) == 5


def test_deleting_the_last_warm_key_clears_the_deadline() -> None:
    shard = Shard()
    shard.run(Initialize(KEYS[0], 1, 0))
    shard.tick(1000)
    shard.run(Initialize(KEYS[1], 1, 0))
    shard.run(Delete(KEYS[1]))
    assert shard.machine.next_deadline() is None
    shard.run(Delete(KEYS[0]))
    assert shard.machine.next_deadline() is None


def test_one_deadline_writes_a_bounded_number_of_records() -> None:
    shard = Shard()
    keys = [SharePartitionKey("g", TOPIC, n) for n in range(2 * MAX_RECORDS_PER_DEADLINE + 5)]
    for key in keys:
        shard.run(Initialize(key, 1, 0))
    assert len(shard.machine.on_deadline(NOW + 400).records) == MAX_RECORDS_PER_DEADLINE
    assert [record.key for record in shard.tick(400)] == keys


def test_an_interrupted_topic_deletion_is_finished_in_bounded_steps() -> None:
    shard = Shard()
    for key in KEYS:
        shard.run(Initialize(key, 1, 0))
        for n in range(100):
            shard.run(write(batch(2 * n, 2 * n), key=key))
    shard.run(DeleteTopicState(TOPIC), keep=1)
    replayed = shard.replayed()
    assert replayed.machine.next_deadline() == 0.0
    assert replayed.tick(0) == [DeltaTombstone(KEYS[0], n, NOW_MS) for n in range(100)]
    assert [replayed.state(key) is None for key in KEYS] == [True, False, False, False]
    assert replayed.run(DeleteTopicState(TOPIC)) == 3


def test_trim_position_is_below_every_live_record() -> None:
    shard = Shard(CheckpointRules(deltas_per_checkpoint=2))
    assert shard.machine.trim_before() == 1
    shard.run(Initialize(KEYS[0], 1, 0))  # 1
    shard.run(Initialize(KEYS[1], 1, 0))  # 2
    assert shard.machine.trim_before() == 1
    shard.run(write(batch(5, 5), key=KEYS[0]))  # 3
    assert shard.machine.trim_before() == 1
    shard.run(write(start=1, key=KEYS[0]))  # 4, delta: a run remains
    shard.run(write(start=9, key=KEYS[0]))  # 5, checkpoint
    assert shard.machine.trim_before() == 2
    shard.run(write(start=9, key=KEYS[1]))  # 6, checkpoint
    assert shard.machine.trim_before() == 5
    shard.run(Delete(KEYS[0]))  # 7
    assert shard.machine.trim_before() == 6
    shard.run(Delete(KEYS[1]))  # 8
    assert shard.machine.trim_before() == 9


def test_an_unfinished_delete_keeps_its_deltas_from_being_trimmed() -> None:
    """KAFKA-19695: a finished one must not."""
    shard = Shard()
    shard.run(Initialize(KEY, 1, 0))  # 1
    shard.run(write(batch(5, 5)))  # 2
    shard.run(Initialize(KEYS[0], 1, 0))  # 3
    shard.run(Delete(KEY), keep=1)  # 4
    assert shard.machine.trim_before() == 1
    shard.trim()
    next_owner = shard.replayed()
    assert next_owner.tick(0) == [DeltaTombstone(KEY, 0, NOW_MS)]
    assert next_owner.machine.trim_before() == 3


def test_initialize_finishes_an_interrupted_delete_first() -> None:
    shard = Shard()
    shard.run(Initialize(KEY, 1, 0))
    shard.run(write(batch(5, 5)))
    shard.run(write(batch(7, 7)))
    shard.run(Delete(KEY), keep=2)
    next_owner = shard.replayed()
    next_owner.run(Initialize(KEY, 1, 0))
    assert next_owner.records()[-2:] == [
        DeltaTombstone(KEY, 1, NOW_MS),
        ShareCheckpoint(KEY, 0, 1, 0, 0, 0, NOW_MS, NOW_MS, ()),
    ]
    assert next_owner.machine.next_deadline() == NOW + 300


def test_repeated_delete_completes_an_interrupted_one() -> None:
    shard = Shard()
    shard.run(Initialize(KEY, 1, 0))
    shard.run(write(batch(5, 5)))
    shard.run(Delete(KEY), keep=1)
    next_owner = shard.replayed()
    next_owner.run(Delete(KEY))
    assert next_owner.records()[-1] == DeltaTombstone(KEY, 0, NOW_MS)
    assert next_owner.machine.next_deadline() is None


ABSENT = "absent"
FRESH = "initialized at state epoch 5"
LED = "read by leader epoch 3"
AGAIN = "initialized again at state epoch 7"
DELETED = "deleted"


def shard_in(situation: str) -> Shard:
    shard = Shard()
    if situation != ABSENT:
        shard.run(Initialize(KEY, 5, 100))
    if situation in (LED, AGAIN, DELETED):
        shard.run(read(3))
    if situation == AGAIN:
        shard.run(Initialize(KEY, 7, 50))
    if situation == DELETED:
        shard.run(Delete(KEY))
    return shard


BAD = ErrorCode.INVALID_REQUEST
STATE = ErrorCode.FENCED_STATE_EPOCH
LEADER = ErrorCode.FENCED_LEADER_EPOCH
UNKNOWN = ErrorCode.UNKNOWN_LEADER_EPOCH

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
    (DELETED, Initialize(KEY, 1, 0), None),
    # Read: only the leader epoch
    (ABSENT, read(0), BAD),
    (ABSENT, read(-1), BAD),
    (FRESH, read(0), None),
    (FRESH, read(9), None),
    (FRESH, read(-1), BAD),
    (LED, read(2), LEADER),
    (LED, read(3), None),
    (LED, read(4), None),
    (AGAIN, read(2), LEADER),
    (AGAIN, read(3), None),
    (DELETED, read(9), BAD),
    # Read above the stored leader epoch: only with a lease of that epoch, or a newer one
    (FRESH, Read(KEY, 9, 9), None),
    (FRESH, Read(KEY, 9, 10), None),
    (FRESH, Read(KEY, 9, 8), UNKNOWN),
    (FRESH, Read(KEY, 9, NO_LEASE), UNKNOWN),
    (LED, Read(KEY, 2**31 - 1, 3), UNKNOWN),
    (LED, Read(KEY, 3, NO_LEASE), None),
    (LED, Read(KEY, 2, 2), LEADER),
    (DELETED, Read(KEY, 9, 8), BAD),
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
    (DELETED, write(state_epoch=5, leader_epoch=3), BAD),
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
    # Delete: of an epoch, only state that is not newer
    (ABSENT, Delete(KEY, 0), None),
    (ABSENT, Delete(KEY, -1), BAD),
    (FRESH, Delete(KEY, 4), STATE),
    (FRESH, Delete(KEY, 5), None),
    (AGAIN, Delete(KEY, 6), STATE),
    (AGAIN, Delete(KEY, 8), None),
    (DELETED, Delete(KEY, 0), None),
    # Delete of any epoch, Summarize: never refused
    *[(situation, Delete(KEY), None) for situation in (ABSENT, FRESH, LED, AGAIN, DELETED)],
    *[(situation, Summarize(KEY), None) for situation in (ABSENT, FRESH, LED, AGAIN, DELETED)],
    *[(situation, DeleteTopicState(TOPIC), None) for situation in (ABSENT, FRESH, LED, AGAIN, DELETED)],
]


@each("situation, command, code", TABLE)
def test_invalid_names_are_rejected(situation: str, command: Command, code: ErrorCode | None) -> None:
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
        (read(2), {"stored_leader_epoch": "3", "leader_epoch": "2"}),
        (Read(KEY, 9, 4), {"lease_epoch": "4", "leader_epoch": "9"}),
        (write(state_epoch=4, leader_epoch=3), {"stored_state_epoch": "5", "state_epoch": "4"}),
    ],
)
def test_fencing_error_contains_both_epochs(command: Command, metadata: dict[str, str]) -> None:
    with pytest.raises(KafkaError) as refused:
        shard_in(LED).run(command)
    assert refused.value.metadata == {"key": str(KEY), **metadata}


SUMMARIES = [
    (ABSENT, SummaryReply(0, 0, -1, -1)),
    (FRESH, SummaryReply(5, 0, 100, 0)),
    (LED, SummaryReply(5, 3, 100, 0)),
    (AGAIN, SummaryReply(7, 3, 50, 0)),
    (DELETED, SummaryReply(0, 0, -1, -1)),
]


@pytest.mark.parametrize(("situation", "summary"), SUMMARIES)
def test_summaries_write_nothing(situation: str, summary: SummaryReply) -> None:
    shard = shard_in(situation)
    length = len(shard.log)
    assert shard.run(Summarize(KEY)) == summary
    assert len(shard.log) == length


@pytest.mark.parametrize(
    ("skew", "expected"),
    [(0.0, 20 + 3), (-1.0, 3), (-0.999, 20 + 3), (59.0, 20 + 3 + 1), (-3600.0, 0)],
    ids=["equal clocks", "behind by a wait", "behind by less", "ahead", "behind by all waits"],
)
def test_records_wait_until_their_time_by_the_clock_of_redis(skew: float, expected: int) -> None:
    shard = shard_in(LED)
    now_ms = int(shard.now * 1000)
    waits = [(100, 119, now_ms + 1000), (125, 127, now_ms + 60_000), (130, 130, now_ms - 58_999)]
    batches = [StateBatch(first, last, 0, 1, StateNote(at)) for first, last, at in waits]
    shard.run(write(*batches, batch(120, 124), batch(140, 141, 0), state_epoch=5, leader_epoch=3))
    assert shard.run(Summarize(KEY, skew)) == SummaryReply(5, 3, 100, 0, expected)


@pytest.mark.parametrize(("skew", "locked"), [(0.0, 7), (-1.0, 2), (-60.0, 0)])
def test_durable_locks_count_as_locked_until_their_end(skew: float, locked: int) -> None:
    shard = shard_in(LED)
    now_ms = int(shard.now * 1000)
    batches = [
        StateBatch(first, last, 0, 1, StateNote(now_ms + ahead, "@m", 9))
        for first, last, ahead in ((100, 104, 1000), (110, 111, 60_000))
    ]
    waiting = StateBatch(120, 122, 0, 1, StateNote(now_ms + 90_000))
    shard.run(write(*batches, waiting, state_epoch=5, leader_epoch=3))
    assert shard.run(Summarize(KEY, skew)) == SummaryReply(5, 3, 100, 0, 3, locked)


def test_archiving_records_are_counted() -> None:
    shard = shard_in(LED)
    failed = StateBatch(110, 114, 3, 1, StateNote(failure=FailureNote(1, 5, "m1", "bad")))
    shard.run(write(failed, batch(120, 121, 3), state_epoch=5, leader_epoch=3))
    assert shard.run(Summarize(KEY)) == SummaryReply(5, 3, 100, 0, 0, 0, 7)
    shard.run(write(batch(110, 121, 4), state_epoch=5, leader_epoch=3))
    assert shard.run(Summarize(KEY)) == SummaryReply(5, 3, 100, 0)


@each(
    "state, note",
    [
        (0, StateNote(failure=FailureNote(1))),
        (4, StateNote(failure=FailureNote(1))),
        (3, StateNote(9)),
        (3, StateNote(9, failure=FailureNote(1))),
        (3, StateNote(0, "@m", 5, FailureNote(1))),
        (3, StateNote(failure=FailureNote(0))),
        (3, StateNote(failure=FailureNote(4))),
        (3, StateNote(failure=FailureNote(1, -1))),
        (3, StateNote(failure=FailureNote(1, 0, "m" * 4097))),
        (3, StateNote(failure=FailureNote(1, 0, "", "x" * 257))),
    ],
)
def test_invalid_failures_are_rejected(state: int, note: StateNote) -> None:
    with pytest.raises(KafkaError, match="INVALID_REQUEST"):
        shard_in(LED).run(write(StateBatch(110, 114, state, 1, note), state_epoch=5, leader_epoch=3))


def test_unset_start_offset_leaves_the_count_unset() -> None:
    shard = Shard()
    shard.run(Initialize(KEY, 1, -1))
    assert shard.run(Summarize(KEY)) == SummaryReply(1, 0, -1, -1)


@each(
    "again, wiped",
    [
        (Initialize(KEY, 1, -1), False),  # requested again after a lost reply: written state stays
        (Initialize(KEY, 1, 110), False),
        (Initialize(KEY, 1, 50), True),  # Kafka: another start, at any epoch
        (
            Initialize(KEY, 1, 50, start_has_epoch=True),
            False,
        ),  # requested before; the start has moved since
        (Initialize(KEY, 2, 110, start_has_epoch=True), True),
        (Initialize(KEY, 2, -1), False),  # requested again by the next coordinator, at a higher epoch
        (Initialize(KEY, 2, 110), True),
        # an added partition starts at 0; its state stays when requested again
        (Initialize(KEY, 1, 0, keep_existing=True), False),
        (Initialize(KEY, 2, 0, keep_existing=True), False),
        # deleted state that a late request created again
        (Initialize(KEY, 2, -1, since_epoch=1), False),
        (Initialize(KEY, 2, -1, since_epoch=2), True),
        (Initialize(KEY, 2, 0, keep_existing=True, since_epoch=2), True),
    ],
)
def test_repeated_initialize_keeps_or_replaces_the_state(again: Initialize, wiped: bool) -> None:
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


def test_the_oldest_epoch_since_which_the_state_was_kept_is_stored() -> None:
    shard = Shard(CheckpointRules(deltas_per_checkpoint=0))
    found = []
    for command in (
        Initialize(KEY, 1, 0),
        Initialize(KEY, 3, -1),
        Initialize(KEY, 5, 0, keep_existing=True),
        Initialize(KEY, 5, 0, keep_existing=True),
        write(batch(0, 9, 0), state_epoch=5),
        Initialize(KEY, 7, 4),
        Initialize(KEY, 8, -1),
    ):
        shard.run(command)
        reply = shard.replayed().run(read(1))
        assert isinstance(reply, ReadReply)
        found.append((reply.state_epoch, reply.kept_since))
    assert found == [(1, 0), (3, 1), (5, 1), (5, 1), (5, 1), (7, 0), (8, 7)]
    shard.tick(1000.0)
    assert shard.replayed().run(read(1)) == ReadReply(8, 4, (), 7)


def test_initialize_starts_a_checkpoint_epoch_without_runs() -> None:
    shard = Shard()
    shard.run(Initialize(KEY, 1, 0))
    shard.run(write(batch(0, 9, 0)))
    shard.run(Initialize(KEY, 2, 500))
    state = shard.state()
    assert state is not None
    assert (state.checkpoint_epoch, state.state_epoch, state.start_offset) == (1, 2, 500)
    assert (state.runs, state.delivery_complete_count) == ([], 0)


def test_read_returns_the_state_and_raises_the_leader_epoch_once() -> None:
    shard = shard_in(FRESH)
    shard.run(write(batch(100, 104), batch(110, 111, 0, 2), state_epoch=5, leader_epoch=3))
    length = len(shard.log)
    expected = ReadReply(5, 100, (StateBatch(100, 104, 2, 1), StateBatch(110, 111, 0, 2)))
    for leader_epoch, more in ((3, 1), (3, 0), (4, 1), (4, 0)):
        assert shard.run(read(leader_epoch)) == expected
        assert len(shard.log) - length == more
        length = len(shard.log)
    assert shard.run(Summarize(KEY)) == SummaryReply(5, 4, 100, 0)


@pytest.mark.parametrize("situation", [FRESH, LED, AGAIN])
def test_a_read_raises_the_leader_epoch_only_with_a_lease_epoch(situation: str) -> None:
    shard = shard_in(situation)
    before, length = deepcopy(shard.state()), len(shard.log)
    assert shard.run(Read(KEY, 9)) == LeaseRequired()
    assert (shard.state(), len(shard.log)) == (before, length)
    assert isinstance(shard.run(Read(KEY, 9, 9)), ReadReply)
    assert isinstance(shard.run(Read(KEY, 9)), ReadReply), "the state names this leader already"


def test_writes_change_neither_epoch() -> None:
    shard = shard_in(LED)
    shard.run(write(batch(100, 100), state_epoch=9, leader_epoch=9))
    assert shard.run(Summarize(KEY)) == SummaryReply(5, 3, 100, 0)


@each(
    "start, count, expected",
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
@each("batches", [(), (batch(120, 121),)])
def test_start_offset_and_count_never_decrease(
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


def test_topic_deletion_removes_exactly_its_share_partitions() -> None:
    shard = Shard()
    keys = [SharePartitionKey(group, TOPIC, n) for group in ("a", "b") for n in range(3)]
    other = SharePartitionKey("a", OTHER_TOPIC, 0)
    for key in (*keys, other):
        shard.run(Initialize(key, 1, 0))
        shard.run(write(batch(0, 0, 0), key=key))
    assert shard.run(DeleteTopicState(TOPIC)) == len(keys)
    assert [key for key in (*keys, other) if shard.state(key)] == [other]
    assert shard.run(DeleteTopicState(TOPIC)) == 0
    assert shard.machine.next_deadline() == shard.replayed().machine.next_deadline()
