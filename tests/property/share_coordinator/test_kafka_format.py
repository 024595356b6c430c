"""A replay of the log in Kafka's form by Kafka's rules yields our state."""

from __future__ import annotations

from hypothesis import given, settings

from sharebroker_server.shard_topic.batches import record_batch
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules
from sharebroker_server.share_coordinator.core.commands import Command
from sharebroker_server.share_coordinator.store.kafka_format import kafka_record
from tests.property.share_coordinator.commands import KEYS
from tests.property.share_coordinator.test_machine import histories, lived, rules
from tests.support.kafka_state import fold, read_batches
from tests.unit.share_coordinator.harness import Shard
from tests.unit.share_coordinator.naive import NaiveRuns


def check(shard: Shard) -> None:
    made = [(position - 1, kafka_record(record)) for position, record in shard.log]
    read = list(read_batches(record_batch(made[0][0], made[-1][0] + 1, made))) if made else []
    assert [record.offset + 1 for record in read] == [position for position, _ in shard.log]
    folded = fold(read)
    assert set(folded) == {tuple(key) for key in KEYS if shard.state(key) is not None}
    for key in KEYS:
        state = shard.state(key)
        if state is not None:
            there = folded[key.group_id, key.topic_id, key.partition]
            assert (there.state_epoch, there.leader_epoch) == (state.state_epoch, state.leader_epoch)
            assert (there.start_offset, there.count) == (state.start_offset, state.delivery_complete_count)
            naive = NaiveRuns()
            naive.values = {offset: (value, None) for offset, value in there.offsets.items()}
            plain = NaiveRuns()
            plain.add([batch._replace(note=None) for batch in state.runs], -1)
            assert naive.runs() == plain.runs()


@settings(deadline=None)
@given(rules, histories)
def test_log_replays_to_the_state(rules: CheckpointRules, history: list[tuple[Command, float]]) -> None:
    check(lived(rules, history))


@settings(deadline=None)
@given(rules, histories)
def test_trimmed_log_replays_to_the_same_state(
    rules: CheckpointRules, history: list[tuple[Command, float]]
) -> None:
    shard = lived(rules, history)
    shard.trim()
    check(shard)
