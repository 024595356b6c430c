"""A discarded decision leaves no trace: deciding twice gives the same decision and changes nothing.

Every random run of the other property tests of this folder is repeated with shards that verify each decision.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.coordinator_runtime.machine import Decision
from sharebroker_server.group_coordinator.core.consumer_groups.commands import (
    CommitOffsets,
    Committed,
    ConsumerHeartbeat,
    Join,
    Leave,
    Leaver,
    MemberIdentity,
    Sync,
)
from sharebroker_server.group_coordinator.core.machine import Command, Record, Reply
from sharebroker_server.group_coordinator.core.transactions import commands as transaction_commands
from tests.property.group_coordinator.test_replay import Coordination
from tests.property.group_coordinator.test_transactions import Cluster
from tests.support.examples import scaled
from tests.support.purity import decided_twice
from tests.unit.group_coordinator.consumer_harness import AT, ConsumerHarness
from tests.unit.group_coordinator.harness import Harness
from tests.unit.group_coordinator.transaction_harness import TransactionHarness


class Verified(Harness):
    def decide(self, command: Command) -> Decision[Record, Reply]:
        return decided_twice(self.machine, lambda: self.machine.decide(command, self.now))

    def due(self) -> Decision[Record, None]:
        return decided_twice(self.machine, lambda: self.machine.on_deadline(self.now))


class VerifiedTransactions(TransactionHarness):
    def decide(self, command: transaction_commands.Command) -> Decision[Any, transaction_commands.Reply]:
        return decided_twice(self.machine, lambda: self.machine.decide(command, self.now))

    def due(self) -> Decision[Any, None]:
        return decided_twice(self.machine, lambda: self.machine.on_deadline(self.now))


class VerifiedConsumers(Verified, ConsumerHarness):
    pass


class PureCoordination(Coordination):
    new_shard = Verified


class PureTransactions(Cluster):
    new_shard = VerifiedTransactions
    new_group_shard = VerifiedConsumers


TestShareGroups = PureCoordination.TestCase
TestShareGroups.settings = settings(stateful_step_count=30, max_examples=scaled(50))
TestTransactions = PureTransactions.TestCase
TestTransactions.settings = settings(stateful_step_count=30, max_examples=scaled(30))

MEMBERS = ("a", "b", "c")
steps = st.tuples(
    st.sampled_from(["join", "known", "sync", "heartbeat", "leave", "commit", "wait"]),
    st.sampled_from(MEMBERS),
    st.none() | st.sampled_from(["i", "j"]),
)


@pytest.mark.parametrize("delay", ["0", "3000"])
@given(run=st.lists(steps, max_size=25))
def test_decisions_about_consumer_groups_are_pure(delay: str, run: list[Any]) -> None:
    shard = VerifiedConsumers(f"group.initial.rebalance.delay.ms={delay}")
    for reply_id, (step, name, instance) in enumerate(run):
        group = shard.machine.consumers._groups.get("g")
        generation = group.generation if group else -1
        member = MemberIdentity("g", generation, name, instance)
        join = Join("g", "", name, 10.0, 60.0, "consumer", (("range", b""),), reply_id, instance)
        commands: dict[str, Command] = {
            "join": join,
            "known": Join("g", name, name, 10.0, 60.0, "consumer", (("range", b""),), reply_id, instance),
            "sync": Sync(member, dict.fromkeys(MEMBERS, b"x"), reply_id),
            "heartbeat": ConsumerHeartbeat(member),
            "leave": Leave("g", (Leaver(name, instance),)),
            "commit": CommitOffsets(member, {AT: Committed(reply_id)}),
        }
        if step == "wait":
            shard.pass_time(11.0)
            continue
        try:
            shard.execute(commands[step])
        except KafkaError:
            continue
