"""After any requests of members and administrators, a shard's log replays to the live state, trimmed or
not.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server import live_keys
from sharebroker_server.group_coordinator.core.machine import Command
from sharebroker_server.group_coordinator.core.share_groups.commands import (
    AlterOffsets,
    AlterPlan,
    DeleteGroup,
    DeleteOffsets,
    DeletePlan,
    Heartbeat,
    HeartbeatReply,
    StateDeleted,
    StateInitialized,
)
from tests.unit.group_coordinator.harness import FakeView, Harness

GROUPS, MEMBERS, TOPICS = ("g", "h"), ("m1", "m2", "m3"), ("a", "b", "c")

groups, members, names = st.sampled_from(GROUPS), st.sampled_from(MEMBERS), st.sampled_from(TOPICS)
Unfinished = tuple[str, frozenset[TopicIdPartition], bool | None]


class Coordination(RuleBasedStateMachine):
    """`Shard.accept` compares the replayed with the live state after every command."""

    new_shard: type[Harness] = Harness

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(live_keys, "SLACK", 4)
        self.cluster = FakeView()
        self.cluster.create("a", 2)
        self.shard = self.new_shard(self.cluster)
        self.unfinished: list[Unfinished] = []
        self.ids = 0

    def teardown(self) -> None:
        self.patch.undo()

    def ask(self, command: Command) -> None:
        try:
            reply = self.shard.execute(command)
        except KafkaError:
            return
        if isinstance(reply, HeartbeatReply) and reply.initialize:
            self.unfinished.append((command.group_id, frozenset(reply.initialize.start_offsets), None))  # type: ignore[union-attr]  # a heartbeat has one
        if isinstance(reply, AlterPlan):
            self.unfinished.append((command.group_id, frozenset(reply.initialize.start_offsets), None))  # type: ignore[union-attr]  # so has this
        if isinstance(reply, DeletePlan):
            self.unfinished.append((command.group_id, reply.partitions, isinstance(command, DeleteGroup)))  # type: ignore[union-attr]  # and this

    @rule(group=groups, member=members, topics=st.lists(names, max_size=3))
    def join(self, group: str, member: str, topics: list[str]) -> None:
        self.ask(Heartbeat(group, member, 0, tuple(topics)))

    @rule(group=groups, member=members, leave=st.booleans())
    def beat(self, group: str, member: str, leave: bool) -> None:
        known = self.shard.machine.shares.groups.get(group)
        epoch = known.members[member].epoch if known and member in known.members else 1
        self.ask(Heartbeat(group, member, -1 if leave else epoch))

    @precondition(lambda self: self.unfinished)
    @rule(data=st.data(), fails=st.booleans())
    def finish(self, data: st.DataObject, fails: bool) -> None:
        index = data.draw(st.integers(0, len(self.unfinished) - 1))
        group, partitions, with_group = self.unfinished.pop(index)
        failed = frozenset(sorted(partitions)[:1]) if fails else frozenset[TopicIdPartition]()
        if with_group is None:
            self.ask(StateInitialized(group, partitions - failed, failed))
        else:
            self.ask(StateDeleted(group, partitions - failed, failed, with_group))

    @rule(name=names, partitions=st.integers(1, 4))
    def create_or_grow(self, name: str, partitions: int) -> None:
        topic = self.cluster.topic(name)
        if topic is None:
            self.ids += 1
            self.cluster.create(name, partitions, f"id{self.ids}")
        elif partitions > topic.partitions:
            self.cluster.grow(name, partitions)

    @rule(name=names)
    def delete(self, name: str) -> None:
        if self.cluster.topic(name):
            self.cluster.delete(name)

    @rule(group=groups, name=names, partition=st.integers(0, 3))
    def alter(self, group: str, name: str, partition: int) -> None:
        self.ask(AlterOffsets(group, {(name, partition): 3}))

    @rule(group=groups, name=names, whole=st.booleans())
    def delete_offsets(self, group: str, name: str, whole: bool) -> None:
        self.ask(DeleteGroup(group) if whole else DeleteOffsets(group, (name,)))

    @rule(seconds=st.sampled_from([1, 20, 46]))
    def wait(self, seconds: int) -> None:
        self.shard.pass_time(seconds)

    @rule()
    def reload(self) -> None:
        self.shard.reload()

    @invariant()
    def everything_adds_up(self) -> None:
        for group in self.shard.machine.shares.groups.values():
            assert group.assignment_epoch <= group.epoch
            for member in group.members.values():
                assert member.previous_epoch < member.epoch <= group.assignment_epoch
            for state in group.topics.values():
                assert state.partitions
                assert not state.initialized & state.deleting
                assert not state.initializing.keys() & (state.initialized | state.deleting)


TestCoordination = Coordination.TestCase


@given(st.integers(1, 40))
def test_log_stays_short_however_long_a_group_lives(rounds: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_keys, "SLACK", 0)
        cluster = FakeView()
        cluster.create("a", 1)
        shard = Harness(cluster)
        shard.join("quiet", "a", group="quiet")
        for _ in range(rounds):
            shard.join("m", "a")
            shard.beat("m", -1)
        assert len(shard.log) + 1 - shard.machine.trim_before() < 60
