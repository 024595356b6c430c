"""A shard of the transaction coordinator with its log, and one that replays it after every record."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.coordinator_runtime.machine import Decision
from sharebroker_server.group_coordinator.core.transactions.commands import (
    Aborting,
    AddPartitions,
    Command,
    CompletionRequested,
    End,
    Ended,
    InitProducerId,
    ProducerIdAndEpoch,
    ReadEnding,
    Reply,
)
from sharebroker_server.group_coordinator.core.transactions.machine import TransactionMachine
from sharebroker_server.group_coordinator.core.transactions.model import ProducerIds, Record, Transaction
from sharebroker_server.group_coordinator.store.transactions import TransactionCodec
from tests.unit.group_coordinator.harness import FakeView

R = TypeVar("R")
P0, P1, P2 = (TopicIdPartition("t", n) for n in range(3))
MINUTE = 60_000


class TransactionHarness:
    """Harness 3 of 50; `now` is the time, `completions` the transactional ids whose completion was
    requested.
    """

    def __init__(self) -> None:
        self.cluster = FakeView()
        self.cluster.broker = BrokerConfig.parse(["transactional.id.expiration.ms=3600000"])
        self.now = 1000.0
        self.log: list[bytes] = []
        self.completions: list[str] = []
        self.machine = self._machine()

    def request(self, command: Command, kind: type[R]) -> R:
        decision = self.decide(command)
        self.accept(decision)
        assert isinstance(decision.reply, kind)
        return decision.reply

    def refuses(self, command: Command) -> ErrorCode:
        before = facts(self.machine)
        with pytest.raises(KafkaError) as caught:
            self.machine.decide(command, self.now)
        assert facts(self.machine) == before
        return caught.value.code

    # Steps of producers

    def initialize(
        self, name: str = "x", *, timeout_ms: int = MINUTE, had: ProducerIdAndEpoch | None = None
    ) -> ProducerIdAndEpoch:
        return self.request(InitProducerId(name, timeout_ms, had), ProducerIdAndEpoch)

    def add(
        self, producer: ProducerIdAndEpoch, *partitions: TopicIdPartition, version: int = 1, name: str = "x"
    ) -> None:
        self.request(AddPartitions(name, producer, frozenset(partitions), version), frozenset)

    def end(
        self, producer: ProducerIdAndEpoch, *, commit: bool = True, version: int = 1, name: str = "x"
    ) -> ProducerIdAndEpoch:
        return self.request(End(name, producer, commit, version), ProducerIdAndEpoch)

    def begun(self, *partitions: TopicIdPartition, version: int = 1) -> ProducerIdAndEpoch:
        """A producer in a transaction."""
        producer = self.initialize()
        self.add(producer, *(partitions or (P0,)), version=version)
        return producer

    # Steps of the service

    def finish(self, name: str = "x") -> Transaction:
        """Writes the markers and returns the ended transaction."""
        ending = self.request(ReadEnding(name), Transaction)
        self.request(Ended(name, ProducerIdAndEpoch(ending.producer_id, ending.producer_epoch)), type(None))
        return ending

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        while (deadline := self.machine.next_deadline()) is not None and deadline <= self.now:
            self.accept(self.due())

    def reload(self) -> None:
        """Another process takes over the shard."""
        self.machine = self.replayed()

    def of(self, name: str = "x") -> Transaction:
        return self.machine.transactions[name]

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
            self.log.append(TransactionCodec().encode(record))
            self.machine.apply(record, len(self.log))
        for change in decision.soft:
            self.machine.apply_soft(change)
        for effect in decision.effects:
            assert isinstance(effect, CompletionRequested)
            self.completions.append(effect.transactional_id)
        if decision.records:
            assert facts(self.replayed()) == facts(self.machine)

    def replayed(self) -> TransactionMachine:
        replayed = self._machine()
        for position in range(self.machine.trim_before(), len(self.log) + 1):
            replayed.apply(TransactionCodec().decode(self.log[position - 1]), position)
        return replayed

    def _machine(self) -> TransactionMachine:
        return TransactionMachine(ProducerIds(3, 50), self.cluster)


def facts(machine: TransactionMachine) -> object:
    return dict(machine.transactions), machine.ids.end


def aborting(shard: TransactionHarness, command: InitProducerId) -> None:
    """The command has to wait for an abort."""
    shard.request(command, Aborting)
