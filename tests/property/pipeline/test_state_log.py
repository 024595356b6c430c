"""The pipeline's replay against the share coordinator's own: any history yields the same state."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateBatch
from sharebroker_server.pipeline.core.state_log import Kind, OffsetStatus, Run, StateLogEntry, check, replay
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules
from sharebroker_server.share_coordinator.core.commands import Command
from sharebroker_server.share_coordinator.core.state import (
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
    ShareState,
)
from tests.property.share_coordinator.commands import KEYS, commands
from tests.unit.share_coordinator.harness import Shard

rules = st.builds(CheckpointRules, st.sampled_from([0, 1, 3, 500]), st.just(300.0))
pauses = st.sampled_from([0.0, 0.0, 1.0, 299.0, 301.0])
histories = st.lists(st.tuples(commands, pauses), max_size=25)


def known(value: int) -> int | None:
    return None if value == -1 else value


def runs(batches: tuple[StateBatch, ...] | list[StateBatch]) -> tuple[Run, ...]:
    return tuple(Run(b.first, b.last, OffsetStatus(b.delivery_count, b.state, wait(b))) for b in batches)


def wait(batch: StateBatch) -> int:
    return batch.note.not_before_ms if batch.note is not None else 0


def entry(position: int, record: ShareRecord) -> StateLogEntry:
    if isinstance(record, ShareCheckpoint):
        whole: tuple[Kind, int, int] = ("checkpoint", record.checkpoint_epoch, record.state_epoch)
        rest = (record.leader_epoch, record.start_offset, record.write_timestamp_ms)
        return StateLogEntry(position, *whole, *rest, runs(record.state_batches))
    if isinstance(record, ShareDelta):
        leader, start = known(record.leader_epoch), known(record.start_offset)
        runs_of_delta = runs(record.state_batches)
        return StateLogEntry(
            position, "delta", record.checkpoint_epoch, None, leader, start, 0, runs_of_delta
        )
    return StateLogEntry(position, "tombstone", 0)


def answer(state: ShareState) -> StateLogEntry:
    epochs = (state.checkpoint_epoch, state.state_epoch, state.leader_epoch)
    return StateLogEntry(
        state.checkpoint_position, "answer", *epochs, state.start_offset, 0, runs(state.runs)
    )


def lived(rules: CheckpointRules, history: list[tuple[Command, float]]) -> Shard:
    shard = Shard(rules)
    for command, pause in history:
        with suppress(KafkaError):
            shard.run(command)
        shard.tick(pause)
    return shard


def entries(shard: Shard, key: SharePartitionKey) -> list[StateLogEntry]:
    log = [entry(position, record) for position, record in shard.log if record.key == key]
    state = shard.state(key)
    return log if state is None else [*log, answer(state)]


@settings(deadline=None)
@given(rules, histories, st.booleans(), st.randoms(use_true_random=False))
def test_log_and_state_agree(
    rules: CheckpointRules, history: list[tuple[Command, float]], trim: bool, random: st.DataObject
) -> None:
    shard = lived(rules, history)
    if trim:
        shard.trim()
    for key in KEYS:
        found = entries(shard, key)
        random.shuffle(found)  # type: ignore[attr-defined]  # a Random
        assert check(found).differences == ()


@settings(deadline=None)
@given(rules, histories, st.data())
def test_changed_state_is_found(
    rules: CheckpointRules, history: list[tuple[Command, float]], data: st.DataObject
) -> None:
    shard = lived(rules, history)
    for key in KEYS:
        state = shard.state(key)
        if state is None:
            continue
        offset = max(state.start_offset, 0) + data.draw(st.integers(0, 20))
        found = entries(shard, key)
        planted = found[-1]._replace(runs=(Run(offset, offset, OffsetStatus(9, 4)),))
        (difference,) = (d for d in check([*found[:-1], planted]).differences if d.first_offset == offset)
        assert difference.text.endswith("in the coordinator: archived, delivered 9 times.")
        folded = replay(found)
        assert folded is not None
        assert folded.start_offset == state.start_offset
