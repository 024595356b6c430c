"""What time makes due, what replay passes over, and what may be trimmed."""

from __future__ import annotations

import pytest

from sharebroker_protocol.model import SharePartitionKey
from sharebroker_server.share_coordinator.core.commands import Delete, DeleteTopic, Initialize
from sharebroker_server.share_coordinator.core.machine import MAX_RECORDS_PER_DEADLINE
from sharebroker_server.share_coordinator.core.recording import CheckpointRules
from sharebroker_server.share_coordinator.core.records import (
    CheckpointTombstone,
    DeltaTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
)
from tests.unit.share_coordinator.harness import KEY, NOW, TOPIC, Shard, batch, same, write

NOW_MS = int(NOW * 1000)
KEYS = [SharePartitionKey("g", TOPIC, n) for n in range(4)]


def delta(epoch: int, index: int = 0, first: int = 5) -> ShareDelta:
    return ShareDelta(KEY, index, epoch, -1, -1, 0, (batch(first, first, 0),))


def checkpoint(epoch: int) -> ShareCheckpoint:
    return ShareCheckpoint(KEY, epoch, 1, 0, 0, 0, NOW_MS, NOW_MS, ())


GONE = CheckpointTombstone(KEY)


@pytest.mark.parametrize(
    ("records", "firsts"),
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
def test_replay_takes_the_latest_checkpoint_and_the_deltas_of_its_epoch(
    records: list[ShareRecord], firsts: list[int] | None
) -> None:
    shard = Shard(log=enumerate(records, 1))
    state = shard.state()
    assert (None if state is None else [run.first for run in state.runs]) == firsts


def test_a_quiet_key_gets_a_cold_checkpoint_once() -> None:
    shard = Shard(CheckpointRules(cold_after=300))
    shard.run(Initialize(KEY, 1, 0))
    shard.run(write(batch(0, 4, 0), count=2))
    assert shard.machine.next_deadline() == NOW + 300
    assert shard.machine.on_deadline(NOW + 299) == ()
    expected = ShareCheckpoint(KEY, 1, 1, 0, 0, 2, NOW_MS, NOW_MS + 300_000, (batch(0, 4, 0),))
    assert shard.tick(300) == [expected]
    assert shard.machine.next_deadline() is None
    assert shard.machine.on_deadline(NOW + 10_000) == ()
    assert same(shard, shard.replayed(), [KEY])


def test_while_some_key_is_warm_the_cold_ones_move_on_too() -> None:
    """Else the first cold key would hold up trimming for ever."""
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


def test_deleting_the_last_warm_key_leaves_nothing_to_do() -> None:
    shard = Shard()
    shard.run(Initialize(KEYS[0], 1, 0))
    shard.tick(1000)
    shard.run(Initialize(KEYS[1], 1, 0))
    shard.run(Delete(KEYS[1]))
    assert shard.machine.next_deadline() is None
    shard.run(Delete(KEYS[0]))
    assert shard.machine.next_deadline() is None


def test_one_deadline_makes_a_bounded_number_of_records() -> None:
    shard = Shard()
    keys = [SharePartitionKey("g", TOPIC, n) for n in range(2 * MAX_RECORDS_PER_DEADLINE + 5)]
    for key in keys:
        shard.run(Initialize(key, 1, 0))
    assert len(shard.machine.on_deadline(NOW + 400)) == MAX_RECORDS_PER_DEADLINE
    assert [record.key for record in shard.tick(400)] == keys


def test_an_interrupted_topic_deletion_is_finished_in_bounded_steps() -> None:
    shard = Shard()
    for key in KEYS:
        shard.run(Initialize(key, 1, 0))
        for n in range(100):
            shard.run(write(batch(2 * n, 2 * n), key=key))
    shard.run(DeleteTopic(TOPIC), keep=1)
    left = shard.replayed()
    assert left.machine.next_deadline() == 0.0
    assert left.tick(0) == [DeltaTombstone(KEYS[0], n, NOW_MS) for n in range(100)]
    assert [left.state(key) is None for key in KEYS] == [True, False, False, False]
    assert left.run(DeleteTopic(TOPIC)) == 3


def test_what_may_be_trimmed() -> None:
    shard = Shard(CheckpointRules(deltas_per_checkpoint=2))
    assert shard.machine.trim_before() == 1
    shard.run(Initialize(KEYS[0], 1, 0))  # 1
    shard.run(Initialize(KEYS[1], 1, 0))  # 2
    assert shard.machine.trim_before() == 1
    shard.run(write(batch(5, 5), key=KEYS[0]))  # 3
    assert shard.machine.trim_before() == 1
    shard.run(write(start=1, key=KEYS[0]))  # 4, delta: a run is left
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


def test_delete_asked_again_finishes_an_interrupted_one() -> None:
    shard = Shard()
    shard.run(Initialize(KEY, 1, 0))
    shard.run(write(batch(5, 5)))
    shard.run(Delete(KEY), keep=1)
    next_owner = shard.replayed()
    next_owner.run(Delete(KEY))
    assert next_owner.records()[-1] == DeltaTombstone(KEY, 0, NOW_MS)
    assert next_owner.machine.next_deadline() is None
