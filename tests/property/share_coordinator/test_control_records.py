"""Share state as control records: the index names all that is needed for the live state."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import SharePartitionKey
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.share_control import control_records
from sharebroker_server.record_log.core.share_index import ShareIndex, state_batch
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules
from sharebroker_server.share_coordinator.core.commands import (
    CheckpointStates,
    Command,
    DeleteTopicState,
    Inspect,
    Inspection,
    ListTopics,
    ReadFailed,
    Reply,
)
from sharebroker_server.share_coordinator.core.machine import ShareCoordinatorMachine
from sharebroker_server.share_coordinator.core.state import (
    ShareRecord,
    ShareState,
)
from sharebroker_server.share_coordinator.store.control_codec import (
    MOST_DELTAS,
    ControlPayload,
    ControlRecordCodec,
)
from tests.property.share_coordinator.commands import KEYS, commands
from tests.unit.record_log.batches import stored
from tests.unit.share_coordinator.harness import NOW, TOPIC

GROUPS = {key: SharePartitionKey(f"{key.group_id}{key.partition}", TOPIC, 0) for key in KEYS}
"""Three groups of one partition, for the share-partitions that commands are drawn for."""

CHECKPOINT_ALL = CheckpointStates(tuple(GROUPS.values()))


def of_one_partition(command: Command) -> Command:
    if isinstance(command, DeleteTopicState | ListTopics):
        return command._replace(topic_id=TOPIC) if isinstance(command, DeleteTopicState) else command
    if isinstance(command, CheckpointStates):
        return command
    return command._replace(key=GROUPS[command.key])


rules = st.builds(
    CheckpointRules, st.sampled_from([0, 1, 3, MOST_DELTAS]), st.sampled_from([300.0]), indexed=st.just(True)
)
steps = st.lists(
    st.one_of(commands.map(of_one_partition), st.just(CHECKPOINT_ALL), st.just(None)), max_size=25
)


class Partition:
    """The log of a partition with a machine; every append is durable at once."""

    def __init__(self, rules: CheckpointRules) -> None:
        self.rules = rules
        self.machine = ShareCoordinatorMachine(rules)
        self.index = ShareIndex()
        self.codec = ControlRecordCodec(TOPIC, 0)
        self.names: dict[str, bytes] = {}
        self.batches: list[StoredBatch] = []
        self.records_end = self.end = 0

    def step(self, command: Command | None) -> None:
        """Runs a command, or appends records of a producer."""
        if command is None:
            self._append(stored(self.end))
            self.records_end = self.end
        else:
            with suppress(KafkaError):
                self._write(self.machine.decide(command, NOW).records)

    def _write(self, records: tuple[ShareRecord, ...]) -> None:
        if not records:
            return
        base = self.end
        payloads = [self.codec.encode(record) for record in records]
        batch, entries = state_batch([payload.record for payload in payloads], base, self.records_end)
        self._append(batch)
        for offset, record in enumerate(records, base):
            self.machine.apply(record, offset)
        self.index.add(entries)
        self.names |= {entry.name: entry.packed() for entry in entries}

    def _append(self, batch: StoredBatch) -> None:
        self.batches.append(batch)
        self.end = batch.last_offset + 1

    def needed(self) -> list[tuple[int, ShareRecord]]:
        wanted = set(ShareIndex.load(self.names).needed())
        found = [
            (offset, self.codec.decode(ControlPayload.of_stored(record)))
            for batch in self.batches
            if batch.control
            for offset, record in control_records(batch)
            if offset in wanted
        ]
        assert {offset for offset, _ in found} == wanted
        return found

    def replayed(self) -> ShareCoordinatorMachine:
        machine = ShareCoordinatorMachine(self.rules)
        for offset, record in self.needed():
            machine.apply(record, offset)
        return machine


def state(machine: ShareCoordinatorMachine, key: SharePartitionKey) -> ShareState | None:
    reply = machine.decide(Inspect(key), NOW).reply
    assert isinstance(reply, Inspection)
    return reply.state


def failed(machine: ShareCoordinatorMachine, key: SharePartitionKey) -> Reply:
    return machine.decide(ReadFailed(key), NOW).reply


def check(partition: Partition) -> None:
    again = partition.replayed()
    for key in GROUPS.values():
        live = state(partition.machine, key)
        assert state(again, key) == live
        assert failed(again, key) == failed(partition.machine, key)
        found = partition.index.checkpoint_offset(key.group_id)
        assert found == (None if live is None else live.checkpoint_position)


@settings(deadline=None)
@given(rules, steps)
def test_records_in_the_index_give_the_live_state(
    rules: CheckpointRules, history: list[Command | None]
) -> None:
    partition = Partition(rules)
    for command in history:
        partition.step(command)
        check(partition)


@settings(deadline=None)
@given(rules, steps, steps)
def test_a_log_trimmed_to_the_earliest_share_offset_recovers_every_group(
    rules: CheckpointRules, before: list[Command | None], after: list[Command | None]
) -> None:
    partition = Partition(rules)
    for command in before:
        partition.step(command)
    earliest = partition.index.earliest()
    trimmed = partition.end if earliest is None else earliest
    partition.batches = [batch for batch in partition.batches if batch.last_offset >= trimmed]
    check(partition)
    for command in after:
        partition.step(command)
        check(partition)


@settings(deadline=None)
@given(rules, steps)
def test_a_checkpoint_of_all_groups_frees_the_log_before(
    rules: CheckpointRules, history: list[Command | None]
) -> None:
    partition = Partition(rules)
    for command in history:
        partition.step(command)
    states = [state(partition.machine, key) for key in GROUPS.values()]
    end = partition.end
    partition.step(CHECKPOINT_ALL)
    assert partition.index.groups_before(end) == []
    partition.batches = [batch for batch in partition.batches if batch.base_offset >= end]
    check(partition)
    for before, key in zip(states, GROUPS.values(), strict=True):
        now = state(partition.machine, key)
        assert (now and now.runs, now and now.start_offset) == (
            before and before.runs,
            before and before.start_offset,
        )
