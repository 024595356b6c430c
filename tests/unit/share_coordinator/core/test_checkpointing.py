"""The record that a change is stored as, and the fields of each record."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import StateBatch
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules
from sharebroker_server.share_coordinator.core.commands import Delete, Initialize, ReadReply
from sharebroker_server.share_coordinator.core.state import (
    CheckpointTombstone,
    DeltaTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
)
from tests.testkit.tables import each
from tests.unit.share_coordinator.harness import KEY, NOW, Shard, batch, read, write

NOW_MS = int(NOW * 1000)


def shard_at(start: int, *batches: StateBatch, rules: CheckpointRules = CheckpointRules()) -> Shard:
    shard = Shard(rules)
    shard.run(Initialize(KEY, 1, start))
    if batches:
        shard.run(write(*batches))
    shard.log.clear()
    return shard


def made(shard: Shard) -> ShareRecord:
    return shard.records()[-1]


@each(
    "before, batches, start, checkpoint",
    [
        # the start offset stays: a delta, however small the whole
        ((), (batch(100, 109),), -1, False),
        ((), (batch(100, 109),), 100, False),
        ((), (), -1, False),
        # it moves and no record remains in flight
        ((), (), 110, True),
        ((batch(100, 109),), (), 110, True),
        ((batch(100, 109), batch(111, 115, 0)), (), 116, True),
        # it moves and no more remains than the delta would carry
        ((batch(100, 109),), (batch(110, 119),), 110, True),
        ((batch(100, 114),), (batch(115, 119),), 110, True),
        ((batch(100, 109), batch(115, 119, 0)), (batch(110, 112), batch(113, 114)), 110, True),
        # more remains
        ((batch(100, 114),), (), 110, False),
        ((batch(100, 109), batch(115, 119, 0)), (batch(110, 112),), 110, False),
        ((batch(100, 109), batch(115, 119, 0), batch(121, 122)), (batch(110, 112),), 110, False),
        # as many remain as are written, but merging does not reduce them
        ((batch(115, 119, 0),), (batch(110, 112),), 110, False),
    ],
)
def test_checkpoint_is_written_where_it_is_no_larger_than_a_delta(
    before: tuple[StateBatch, ...], batches: tuple[StateBatch, ...], start: int, checkpoint: bool
) -> None:
    shard = shard_at(100, *before)
    shard.run(write(*batches, start=start))
    assert isinstance(made(shard), ShareCheckpoint) is checkpoint
    assert isinstance(made(shard), ShareDelta) is not checkpoint


@pytest.mark.parametrize("deltas", [0, 500])
def test_a_write_that_replaces_the_state_is_all_that_remains(deltas: int) -> None:
    shard = shard_at(100, batch(100, 109), batch(115, 119, 0), rules=CheckpointRules(deltas))
    shard.run(write(batch(95, 97), start=90, count=3)._replace(replaces=True))
    record = made(shard)
    assert isinstance(record, ShareCheckpoint)
    assert (record.start_offset, record.delivery_complete_count) == (90, 3)
    assert record.state_batches == (batch(95, 97),)
    state = shard.run(read(0))
    assert isinstance(state, ReadReply)
    assert (state.start_offset, state.state_batches) == (90, (batch(95, 97),))


def test_a_write_that_replaces_the_state_has_a_start_offset() -> None:
    shard = shard_at(100)
    with pytest.raises(KafkaError) as rejected:
        shard.run(write(start=-1)._replace(replaces=True))
    assert rejected.value.code is ErrorCode.INVALID_REQUEST


def test_delta_has_only_changed_fields() -> None:
    shard = shard_at(100, batch(115, 119, 0), batch(121, 121, 0))
    shard.run(write(batch(110, 112), start=110, count=3))
    assert made(shard) == ShareDelta(KEY, 1, 0, -1, 110, 3, (batch(110, 112),), NOW_MS)
    shard.run(write(batch(113, 113), count=4))
    assert made(shard) == ShareDelta(KEY, 2, 0, -1, -1, 4, (batch(113, 113),), NOW_MS)
    shard.run(write(batch(90, 120), start=90, count=2))
    assert made(shard) == ShareDelta(KEY, 3, 0, -1, -1, 4, (batch(90, 120),), NOW_MS)
    shard.run(read(8))
    assert made(shard) == ShareDelta(KEY, 4, 0, 8, -1, 4, (), NOW_MS)


def test_checkpoint_has_every_field() -> None:
    shard = shard_at(100, batch(100, 114))
    shard.run(write(batch(115, 119), start=110, count=10))
    expected = ShareCheckpoint(KEY, 1, 1, 0, 110, 10, NOW_MS, NOW_MS, (batch(110, 119),))
    assert made(shard) == expected


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 10, 255, 256, 257, 500])
def test_deltas_between_checkpoints_are_limited(limit: int) -> None:
    """Kafka up to 4.2.0 wrote one more (#21426)."""
    shard = Shard(CheckpointRules(deltas_per_checkpoint=limit))
    shard.run(Initialize(KEY, 1, 0))
    for offset in range(2 * (limit + 1)):
        shard.run(write(batch(2 * offset, 2 * offset)))
    kinds = [isinstance(record, ShareCheckpoint) for record in shard.records()]
    assert kinds == [True, *([False] * limit + [True]) * 2]
    assert shard.replayed().state() == shard.state()


def test_a_read_counts_as_a_delta() -> None:
    shard = Shard(CheckpointRules(deltas_per_checkpoint=1))
    shard.run(Initialize(KEY, 1, 0))
    shard.run(read(1))
    shard.run(read(2))
    assert made(shard) == ShareCheckpoint(KEY, 1, 1, 2, 0, 0, NOW_MS, NOW_MS, ())


def test_delta_indices_continue_over_checkpoints() -> None:
    """Two checkpoints, a delta, a checkpoint, two deltas."""
    shard = Shard()
    shard.run(Initialize(KEY, 1, 0))
    shard.run(Initialize(KEY, 2, 0))
    shard.run(write(batch(0, 0, 0), state_epoch=2))
    shard.run(Initialize(KEY, 3, 0))
    shard.run(write(batch(0, 0, 0), state_epoch=3))
    shard.run(write(batch(5, 5, 0), state_epoch=3))
    seen = [(getattr(record, "delta_index", None), record.checkpoint_epoch) for record in shard.records()]  # type: ignore[union-attr]  # no tombstones here
    assert seen == [(None, 0), (None, 1), (0, 1), (None, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("limit", "last"), [(1, 255), (100, 255), (255, 255), (256, 255), (257, 511), (300, 511), (500, 511)]
)
def test_delta_index_wraps_at_255_and_a_small_range_is_extended(limit: int, last: int) -> None:
    shard = Shard(CheckpointRules(deltas_per_checkpoint=limit))
    shard.run(Initialize(KEY, 1, 0))
    for offset in range(1300):
        shard.run(write(batch(2 * offset, 2 * offset)))
    indices = [record.delta_index for record in shard.records() if isinstance(record, ShareDelta)]
    assert indices == [n % (last + 1) for n in range(len(indices))]
    assert len(indices) > last


def test_used_delta_index_is_not_reused_after_the_range_was_extended() -> None:
    """Deltas 250 to 255 and 0 to 50 count, then the limit is raised: at 250 a checkpoint is written first."""
    small = Shard(CheckpointRules(deltas_per_checkpoint=250))
    small.run(Initialize(KEY, 1, 0))
    for offset in range(250 + 1 + 57):
        small.run(write(batch(2 * offset, 2 * offset)))
    state = small.state()
    assert state is not None
    assert (state.delta_indices[0], state.last_delta_index) == (250, 50)
    large = Shard(CheckpointRules(deltas_per_checkpoint=500), small.log)
    for offset in range(400, 400 + 461):
        large.run(write(batch(2 * offset, 2 * offset)))
    assert large.state() == large.replayed().state()
    deltas = [(r.checkpoint_epoch, r.delta_index) for r in large.records() if isinstance(r, ShareDelta)]
    assert len(set(deltas)) == len(deltas)


def test_delta_index_range_may_shrink() -> None:
    large = Shard(CheckpointRules(deltas_per_checkpoint=500))
    large.run(Initialize(KEY, 1, 0))
    for offset in range(300):
        large.run(write(batch(2 * offset, 2 * offset)))
    small = Shard(CheckpointRules(deltas_per_checkpoint=100), large.log)
    for offset in range(300, 420):
        small.run(write(batch(2 * offset, 2 * offset)))
    made_now = small.records()[301:]
    assert isinstance(made_now[0], ShareCheckpoint)
    assert [r.delta_index for r in made_now if isinstance(r, ShareDelta)][:3] == [0, 1, 2]


def test_checkpoint_epochs_wrap_and_deltas_follow() -> None:
    shard = Shard()
    shard.write([ShareCheckpoint(KEY, 2**31 - 1, 1, 0, 100, 0, NOW_MS, NOW_MS, ())])
    shard.run(write(start=110))
    shard.run(write(batch(110, 111, 0)))
    assert [record.checkpoint_epoch for record in shard.records()[1:]] == [0, 0]  # type: ignore[union-attr]  # no tombstones here
    assert shard.replayed().state() == shard.state()


def test_delete_writes_checkpoint_tombstone_before_delta_tombstones() -> None:
    shard = shard_at(0, batch(0, 0, 0), rules=CheckpointRules(deltas_per_checkpoint=3))
    for offset in range(2, 12, 2):
        shard.run(write(batch(offset, offset, 0)))
    shard.log.clear()
    shard.run(Delete(KEY))
    assert shard.records() == [
        CheckpointTombstone(KEY, NOW_MS),
        DeltaTombstone(KEY, 3, NOW_MS),
        DeltaTombstone(KEY, 4, NOW_MS),
    ]


def test_delete_of_nothing_writes_nothing() -> None:
    shard = Shard()
    shard.run(Delete(KEY))
    assert shard.records() == []
