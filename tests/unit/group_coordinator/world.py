"""A group coordinator's shard without a runtime; after every command its log folds to the live state."""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.records import (
    CatalogRecord,
    ConfigRecord,
    ConfigResource,
    PartitionsRecord,
    ResourceType,
    Topic,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.config.group import GroupConfig, resolve_group
from sharebroker_server.group_coordinator.core.commands import (
    Command,
    Heartbeat,
    HeartbeatReply,
    Reply,
    StateInitialized,
    Stay,
)
from sharebroker_server.group_coordinator.core.consumers.commands import Answered
from sharebroker_server.group_coordinator.core.consumers.pending import Place
from sharebroker_server.group_coordinator.core.machine import GroupCounts, GroupMachine
from sharebroker_server.group_coordinator.core.model import ShareGroup
from sharebroker_server.group_coordinator.core.records import Record
from sharebroker_server.group_coordinator.store.codec import GroupCodec

R = TypeVar("R", bound=Reply)


class Cluster:
    """The cluster as the rules see it."""

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


class Shard:
    """A shard and its log; `now` is the time, `fenced` who was fenced, `answers` what came under tickets."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.now = 1000.0
        self.log: list[bytes] = []
        self.fenced: list[tuple[str, str]] = []
        self.answers: dict[int, Answered] = {}
        self.counts = GroupCounts()
        self.machine = self._machine()

    def ask(self, command: Command, kind: type[R]) -> R:
        self.check_those_who_stay()
        records, reply = self.machine.decide(command, self.now)
        self.take(records)
        assert isinstance(reply, kind)
        return reply

    def tell(self, command: Command) -> tuple[Record, ...]:
        records, _ = self.machine.decide(command, self.now)
        self.take(records)
        return records

    def stay(self, member: str, epoch: int, group: str = "g") -> bool:
        """A heartbeat like the last one; what a True leaves out is checked with every command."""
        return self.ask(Stay(group, member, epoch), bool)

    def check_those_who_stay(self) -> None:
        """A heartbeat of theirs would change nothing, and be answered as the last one."""
        before = deepcopy(self.machine._sessions)
        for group in list(self.machine.groups.values()):
            for member_id, member in group.members.items():
                if self.machine.decide(Stay(group.group_id, member_id, member.epoch), self.now).reply:
                    who = (member.profile.rack_id, member.profile.client_id, member.profile.client_host)
                    same = Heartbeat(group.group_id, member_id, member.epoch, None, *who)
                    records, reply = self.machine.decide(same, self.now)
                    assert isinstance(reply, HeartbeatReply)
                    assert (records, reply.assignment, reply.initialize) == ((), None, None)
                    assert (reply.member_epoch, reply.pending) == (member.epoch, False)
        self.machine._sessions = before

    def refuses(self, command: Command) -> KafkaError:
        before = facts(self.machine)
        with pytest.raises(KafkaError) as caught:
            self.machine.decide(command, self.now)
        assert facts(self.machine) == before
        return caught.value

    def beat(self, member: str, epoch: int, *topics: str, group: str = "g", **more: str) -> HeartbeatReply:
        """A heartbeat; with topics it names them, without it leaves the subscription as it is."""
        return self.ask(Heartbeat(group, member, epoch, topics or None, **more), HeartbeatReply)

    def initialize(self, reply: HeartbeatReply) -> None:
        """Has everything the reply asks for initialised."""
        assert reply.initialize is not None
        done = frozenset(reply.initialize.start_offsets)
        self.tell(StateInitialized(reply.initialize.group_id, done))

    def join(self, member: str, *topics: str, group: str = "g") -> HeartbeatReply:
        """What the service does with a joining member: initialise, then ask again."""
        reply = self.beat(member, 0, *topics, group=group)
        if reply.initialize is not None:
            self.initialize(reply)
            reply = self.beat(member, 0, *topics, group=group)
        return reply

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        while (deadline := self.machine.next_deadline()) is not None and deadline <= self.now:
            self.take(tuple(self.machine.on_deadline(self.now)))

    def reload(self) -> None:
        """Another process takes the shard over."""
        self.machine = self.replayed()

    def group(self, group_id: str = "g") -> ShareGroup:
        return self.machine.groups[group_id]

    def take(self, records: tuple[Record, ...]) -> None:
        for record in records:
            self.log.append(GroupCodec().encode(record))
            self.machine.apply(record, len(self.log))
        if records:
            assert facts(self.replayed()) == facts(self.machine)

    def replayed(self) -> GroupMachine:
        replayed = self._machine()
        for position in range(self.machine.trim_before(), len(self.log) + 1):
            replayed.apply(GroupCodec().decode(self.log[position - 1]), position)
        return replayed

    def _machine(self) -> GroupMachine:
        return GroupMachine(
            self.cluster,
            lambda group_id, member_id: self.fenced.append((group_id, member_id)),
            self.answers.__setitem__,
            self.counts,
        )


def facts(machine: GroupMachine) -> object:
    offsets = machine.consumers.offsets
    committed = {group_id: dict(offsets.of(group_id)) for group_id in offsets}
    pending = {
        (group_id, partition): dict(machine.consumers.pending.at(Place(group_id, partition)))
        for group_id in machine.consumers.pending
        for partition in machine.consumers.pending.of(group_id)
    }
    return (
        machine.floor,
        committed,
        pending,
        {
            group_id: (group.epoch, group.assignment_epoch, group.metadata_hash, group.members, group.topics)
            for group_id, group in machine.groups.items()
        },
    )


def tp(topic_id: str, *partitions: int) -> frozenset[TopicIdPartition]:
    return frozenset(TopicIdPartition(topic_id, partition) for partition in partitions)
