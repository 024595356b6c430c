"""A group coordinator's shard without a runtime; every command compares replayed and live state."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.records import (
    CatalogRecord,
    ConfigRecord,
    PartitionsRecord,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.config.group import GroupConfig, resolve_group
from sharebroker_server.coordinator_runtime.machine import Decision, Effect
from sharebroker_server.group_coordinator.core.consumer_groups.commands import DeferredResult
from sharebroker_server.group_coordinator.core.consumer_groups.group import DeferredReply
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import Place
from sharebroker_server.group_coordinator.core.machine import Command, GroupMachine, Record, Reply
from sharebroker_server.group_coordinator.core.share_groups.commands import (
    Heartbeat,
    HeartbeatReply,
    MemberFenced,
    Rebalanced,
    StateInitialized,
    UnchangedHeartbeat,
)
from sharebroker_server.group_coordinator.core.share_groups.group import ShareGroup
from sharebroker_server.group_coordinator.store.codec import GroupCodec

R = TypeVar("R", bound=Reply)


class FakeView:
    """The topics and configs that a decision reads."""

    def __init__(self, *settings: str) -> None:
        self.broker = BrokerConfig.parse(settings)
        self.catalog = TopicCatalog()

    def create(self, name: str, partitions: int, topic_id: str = "") -> str:
        return self._write(
            TopicRecord(Topic(topic_id or f"id-{name}", name, partitions)), topic_id or f"id-{name}"
        )

    def grow(self, name: str, partitions: int) -> None:
        self._write(PartitionsRecord(self.id(name), partitions))

    def delete(self, name: str) -> None:
        self._write(TopicDeletedRecord(self.id(name)))

    def configure(self, group_id: str, **settings: str) -> None:
        resource = ConfigResource(ResourceType.GROUP, group_id)
        for name, value in settings.items():
            self._write(ConfigRecord(resource, name.replace("_", "."), value))

    def id(self, name: str) -> str:
        topic = self.catalog.topic(name)
        assert topic is not None
        return topic.topic_id

    @property
    def revision(self) -> int:
        return self.catalog.position

    def topic(self, name: str) -> Topic | None:
        return self.catalog.topic(name)

    def topic_by_id(self, topic_id: str) -> Topic | None:
        return self.catalog.topic_by_id(topic_id)

    def is_deleted(self, topic_id: str) -> bool:
        return self.catalog.is_deleted(topic_id)

    def group_config(self, group_id: str) -> GroupConfig:
        settings = self.catalog.configs(ConfigResource(ResourceType.GROUP, group_id))
        return resolve_group(settings, self.broker)

    def _write(self, record: CatalogRecord, result: str = "") -> str:
        self.catalog.apply(record, self.catalog.position + 1)
        return result


class Harness:
    """A shard and its log; `now` is the time, `fenced` the fenced members, `replies` maps ids to replies."""

    def __init__(self, cluster: FakeView) -> None:
        self.cluster = cluster
        self.now = 1000.0
        self.log: list[bytes] = []
        self.fenced: list[tuple[str, str]] = []
        self.replies: dict[int, DeferredResult] = {}
        self.rebalances = 0
        self.machine = self._machine()

    def request(self, command: Command, kind: type[R]) -> R:
        self.check_unchanged_heartbeats()
        decision = self.decide(command)
        self.accept(decision)
        if isinstance(decision.reply, KafkaError):
            raise decision.reply
        assert isinstance(decision.reply, kind)
        return decision.reply

    def send(self, command: Command) -> tuple[Record, ...]:
        decision = self.decide(command)
        self.accept(decision)
        if isinstance(decision.reply, KafkaError):
            raise decision.reply
        return decision.records

    def stay(self, member: str, epoch: int, group: str = "g") -> bool:
        """An unchanged heartbeat; `check_unchanged_heartbeats` verifies replies of True."""
        return self.request(UnchangedHeartbeat(group, member, epoch), bool)

    def check_unchanged_heartbeats(self) -> None:
        """Verifies that a full heartbeat in place of an accepted unchanged one would change nothing."""
        for group in list(self.machine.shares.groups.values()):
            for member_id, member in group.members.items():
                if self.machine.decide(
                    UnchangedHeartbeat(group.group_id, member_id, member.epoch), self.now
                ).reply:
                    who = (member.profile.rack_id, member.profile.client_id, member.profile.client_host)
                    same = Heartbeat(group.group_id, member_id, member.epoch, None, *who)
                    decision = self.machine.decide(same, self.now)
                    reply = decision.reply
                    assert isinstance(reply, HeartbeatReply)
                    assert (decision.records, reply.assignment, reply.initialize) == ((), None, None)
                    assert (reply.member_epoch, reply.pending) == (member.epoch, False)

    def refuses(self, command: Command) -> KafkaError:
        before = facts(self.machine)
        with pytest.raises(KafkaError) as caught:
            self.send(command)
        assert facts(self.machine) == before
        return caught.value

    def beat(self, member: str, epoch: int, *topics: str, group: str = "g", **more: str) -> HeartbeatReply:
        """Sends a heartbeat; without topics it keeps the subscription."""
        return self.request(Heartbeat(group, member, epoch, topics or None, **more), HeartbeatReply)

    def initialize(self, reply: HeartbeatReply) -> None:
        """Initialises all state that the reply requests."""
        assert reply.initialize is not None
        done = frozenset(reply.initialize.start_offsets)
        self.send(StateInitialized(reply.initialize.group_id, done))

    def join(self, member: str, *topics: str, group: str = "g") -> HeartbeatReply:
        """Joins as the service does: heartbeat, initialise, heartbeat again."""
        reply = self.beat(member, 0, *topics, group=group)
        if reply.initialize is not None:
            self.initialize(reply)
            reply = self.beat(member, 0, *topics, group=group)
        return reply

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        while (deadline := self.machine.next_deadline()) is not None and deadline <= self.now:
            self.accept(self.due())

    def reload(self) -> None:
        """Another process takes over the shard."""
        self.machine = self.replayed()

    def group(self, group_id: str = "g") -> ShareGroup:
        return self.machine.shares.groups[group_id]

    def decide(self, command: Command) -> Decision[Record, Reply]:
        return self.machine.decide(command, self.now)

    def due(self) -> Decision[Record, None]:
        return self.machine.on_deadline(self.now)

    def execute(self, command: Command) -> Reply:
        """Decides and accepts."""
        decision = self.decide(command)
        self.accept(decision)
        return decision.reply

    def accept(self, decision: Decision[Record, Any]) -> None:
        """Applies a decision as the runtime does."""
        for record in decision.records:
            self.log.append(GroupCodec().encode(record))
            self.machine.apply(record, len(self.log))
        for change in decision.soft:
            self.machine.apply_soft(change)
        for effect in decision.effects:
            self._perform(effect)
        # Each check replays the whole log: a long log is checked at every 64th change only.
        if decision.records and (len(self.log) < 256 or len(self.log) % 64 == 0):
            assert facts(self.replayed()) == facts(self.machine)

    def replayed(self) -> GroupMachine:
        replayed = self._machine()
        for position in range(self.machine.trim_before(), len(self.log) + 1):
            replayed.apply(GroupCodec().decode(self.log[position - 1]), position)
        return replayed

    def _machine(self) -> GroupMachine:
        return GroupMachine(self.cluster)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case MemberFenced(group_id, member_id):
                self.fenced.append((group_id, member_id))
            case Rebalanced(count):
                self.rebalances += count
            case DeferredReply(reply_id, result):
                self.replies[reply_id] = result
            case _:
                raise AssertionError(effect)


def facts(machine: GroupMachine) -> object:
    offsets = machine.consumers.offsets
    committed = {group_id: dict(offsets.of(group_id)) for group_id in offsets}
    pending = {
        (group_id, partition): dict(machine.consumers.pending.at(Place(group_id, partition)))
        for group_id in machine.consumers.pending
        for partition in machine.consumers.pending.of(group_id)
    }
    return (
        machine.shares.floor,
        committed,
        pending,
        {
            group_id: (group.epoch, group.assignment_epoch, group.metadata_hash, group.members, group.topics)
            for group_id, group in machine.shares.groups.items()
        },
    )


def tp(topic_id: str, *partitions: int) -> frozenset[TopicIdPartition]:
    return frozenset(TopicIdPartition(topic_id, partition) for partition in partitions)
