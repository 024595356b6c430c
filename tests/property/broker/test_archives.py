"""Share state that was exported and imported equals the state that it was, for any history of commands."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey
from sharebroker_server.broker.archive.codec import decode_records, encode_records
from sharebroker_server.broker.core.archive_plan import plan_import
from sharebroker_server.broker.core.archive_selection import Selection, archive_records
from sharebroker_server.broker.core.archive_topics import Choices, TargetCluster
from sharebroker_server.catalog.records import TopicRecord
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules
from sharebroker_server.share_coordinator.core.commands import Command, Inspect, Inspection, ReadFailed
from sharebroker_server.share_coordinator.core.state import ShareState
from tests.property.share_coordinator.commands import KEYS, commands
from tests.unit.broker.core.archives import CONFIG, catalog, groups, machine, share_group
from tests.unit.share_coordinator.harness import OTHER_TOPIC, TOPIC, Shard

TOPICS = [Topic(TOPIC, "orders", 2), Topic(OTHER_TOPIC, "bills", 1)]
GROUPS = [*share_group("g", topics=TOPICS[:1]), *share_group("h", topics=TOPICS[1:])]

rules = st.builds(CheckpointRules, st.sampled_from([0, 1, 3, 500]), st.just(300.0))


def lived(rules: CheckpointRules, history: list[Command]) -> Shard:
    shard = Shard(rules)
    for command in history:
        with suppress(KafkaError):
            shard.run(command)
    return shard


def moved(shard: Shard) -> Shard:
    """Returns the shard of another cluster after an export, and an import that was repeated."""
    source = catalog(*map(TopicRecord, TOPICS))
    states = shard.machine.checkpoints(shard.now)
    lines = encode_records(archive_records(source, [machine(GROUPS)], states, Selection()))
    target = TargetCluster(catalog(), CONFIG, 1.0)
    plan = plan_import("archive", decode_records(lines), Choices(), target, groups())
    there = Shard()
    for _ in range(2):
        there.write(plan.states)
    return there


def outcome(shard: Shard, key: SharePartitionKey) -> object:
    """Returns what a leader and an administrator see of a share-partition."""
    inspection = shard.run(Inspect(key))
    assert isinstance(inspection, Inspection)
    state = inspection.state
    return None if state is None else (_fields(state), shard.run(ReadFailed(key)))


def _fields(state: ShareState) -> tuple[object, ...]:
    epochs = state.state_epoch, state.leader_epoch
    return *epochs, state.start_offset, state.delivery_complete_count, state.runs


@given(rules, st.lists(commands, max_size=30))
def test_imported_share_state_equals_the_exported_state(
    rules: CheckpointRules, history: list[Command]
) -> None:
    shard = lived(rules, history)
    there = moved(shard)
    assert [outcome(there, key) for key in KEYS] == [outcome(shard, key) for key in KEYS]


@given(rules, st.lists(commands, max_size=20), st.lists(commands, max_size=10))
def test_imported_share_state_continues_as_the_original(
    rules: CheckpointRules, history: list[Command], later: list[Command]
) -> None:
    shard = lived(rules, history)
    there = moved(shard)
    for command in later:
        replies: list[ErrorCode | None] = []
        for each in (shard, there):
            try:
                each.run(command)
                replies.append(None)
            except KafkaError as error:
                replies.append(error.code)
        assert replies[0] == replies[1]
    assert [outcome(there, key) for key in KEYS] == [outcome(shard, key) for key in KEYS]
