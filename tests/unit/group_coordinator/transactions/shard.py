"""A shard of the transaction coordinator with its log, and one that replays it after every record."""

from __future__ import annotations

from typing import TypeVar

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.group_coordinator.core.transactions.commands import (
    Aborting,
    AddPartitions,
    AskEnding,
    Command,
    End,
    Ended,
    Initialize,
    Producer,
)
from sharebroker_server.group_coordinator.core.transactions.ids import ProducerIds
from sharebroker_server.group_coordinator.core.transactions.machine import TransactionMachine
from sharebroker_server.group_coordinator.core.transactions.model import Transaction
from sharebroker_server.group_coordinator.core.transactions.records import Record
from sharebroker_server.group_coordinator.store.transactions import TransactionCodec
from tests.unit.group_coordinator.world import Cluster

R = TypeVar("R")
P0, P1, P2 = (TopicIdPartition("t", n) for n in range(3))
MINUTE = 60_000


class TransactionShard:
    """Shard 3 of 50; `now` is the time, `told` the transactional ids that were to be ended."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.broker = BrokerConfig.parse(["transactional.id.expiration.ms=3600000"])
        self.now = 1000.0
        self.log: list[bytes] = []
        self.told: list[str] = []
        self.machine = self._machine()

    def ask(self, command: Command, kind: type[R]) -> R:
        records, reply = self.machine.decide(command, self.now)
        self.take(records)
        assert isinstance(reply, kind)
        return reply

    def refuses(self, command: Command) -> ErrorCode:
        before = facts(self.machine)
        with pytest.raises(KafkaError) as caught:
            self.machine.decide(command, self.now)
        assert facts(self.machine) == before
        return caught.value.code

    # What producers do

    def initialize(
        self, name: str = "x", *, timeout_ms: int = MINUTE, had: Producer | None = None
    ) -> Producer:
        return self.ask(Initialize(name, timeout_ms, had), Producer)

    def add(
        self, producer: Producer, *partitions: TopicIdPartition, version: int = 1, name: str = "x"
    ) -> None:
        self.ask(AddPartitions(name, producer, frozenset(partitions), version), frozenset)

    def end(self, producer: Producer, *, commit: bool = True, version: int = 1, name: str = "x") -> Producer:
        return self.ask(End(name, producer, commit, version), Producer)

    def begun(self, *partitions: TopicIdPartition, version: int = 1) -> Producer:
        """A producer in a transaction."""
        producer = self.initialize()
        self.add(producer, *(partitions or (P0,)), version=version)
        return producer

    # What the service does

    def finish(self, name: str = "x") -> Transaction:
        """Writes the markers; what was ended."""
        ending = self.ask(AskEnding(name), Transaction)
        self.ask(Ended(name, Producer(ending.producer_id, ending.producer_epoch)), type(None))
        return ending

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        while (deadline := self.machine.next_deadline()) is not None and deadline <= self.now:
            self.take(tuple(self.machine.on_deadline(self.now)))

    def reload(self) -> None:
        """Another process takes the shard over."""
        self.machine = self.replayed()

    def of(self, name: str = "x") -> Transaction:
        return self.machine.transactions[name]

    def take(self, records: tuple[Record, ...]) -> None:
        for record in records:
            self.log.append(TransactionCodec().encode(record))
            self.machine.apply(record, len(self.log))
        if records:
            assert facts(self.replayed()) == facts(self.machine)

    def replayed(self) -> TransactionMachine:
        replayed = self._machine()
        for position in range(self.machine.trim_before(), len(self.log) + 1):
            replayed.apply(TransactionCodec().decode(self.log[position - 1]), position)
        return replayed

    def _machine(self) -> TransactionMachine:
        return TransactionMachine(ProducerIds(3, 50), self.cluster, self.told.append)


def facts(machine: TransactionMachine) -> object:
    return dict(machine.transactions), machine.ids.end


def aborting(shard: TransactionShard, command: Initialize) -> None:
    """The command has to wait for an abort."""
    shard.ask(command, Aborting)
