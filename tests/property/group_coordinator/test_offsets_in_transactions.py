"""Offsets in and outside transactions, against a complete model: the last committed offset counts.

`Shard.take` compares the replayed with the live state after every command.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server import live_keys
from sharebroker_server.group_coordinator.core.consumer_groups.commands import (
    CommitInTransaction,
    CommitOffsets,
    Committed,
    CompleteTransaction,
    FetchOffsets,
    ForgetOffsets,
    GroupOffsets,
    MemberIdentity,
)
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import (
    CommittedOffsets,
    OffsetRecord,
    Place,
)
from sharebroker_server.group_coordinator.core.share_groups.commands import DeleteGroup
from sharebroker_server.group_coordinator.store.codec import GroupCodec
from tests.support.examples import scaled
from tests.unit.group_coordinator.consumer_harness import ConsumerHarness

GROUPS, PRODUCERS = ("g", "h"), (1, 2, 3)
PARTITIONS = tuple(TopicIdPartition("id-a", number) for number in range(3))
groups, producers = st.sampled_from(GROUPS), st.sampled_from(PRODUCERS)
some = st.sets(st.sampled_from(PARTITIONS), min_size=1)


@dataclass(frozen=True)
class Written:
    """A written offset; whether it `counts` is unknown while its producer's transaction is open."""

    producer: int | None
    place: Place
    offset: int
    counts: bool | None


class Offsets(RuleBasedStateMachine):
    """`written` has every offset since the last deletion, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(live_keys, "SLACK", 4)
        self.shard = ConsumerHarness()
        self.written: list[Written] = []
        self.number = 0

    def teardown(self) -> None:
        self.patch.undo()

    def write(self, group: str, partitions: set[TopicIdPartition], producer: int | None) -> None:
        self.number += 1
        identity = MemberIdentity(group, -1, "")
        offsets = dict.fromkeys(sorted(partitions), Committed(self.number))
        if producer is None:
            self.shard.send(CommitOffsets(identity, offsets))
        else:
            self.shard.send(CommitInTransaction(identity, producer, 0, offsets, 1))
        counts = True if producer is None else None
        self.written += [Written(producer, Place(group, one), self.number, counts) for one in offsets]

    @rule(group=groups, partitions=some)
    def commit(self, group: str, partitions: set[TopicIdPartition]) -> None:
        self.write(group, partitions, None)

    @rule(group=groups, partitions=some, producer=producers)
    def commit_in_transaction(self, group: str, partitions: set[TopicIdPartition], producer: int) -> None:
        self.write(group, partitions, producer)

    @rule(producer=producers, commits=st.booleans())
    def end(self, producer: int, commits: bool) -> None:
        self.shard.send(CompleteTransaction(producer, 0, 1, commits))
        self.written = [
            replace(one, counts=commits) if one.producer == producer and one.counts is None else one
            for one in self.written
        ]

    @rule(group=groups, partitions=st.none() | some)
    def delete(self, group: str, partitions: set[TopicIdPartition] | None) -> None:
        whole = DeleteGroup(group)
        with contextlib.suppress(KafkaError):  # the group may not exist
            self.shard.send(whole if partitions is None else ForgetOffsets(group, frozenset(partitions)))
        gone = {Place(group, one) for one in partitions or PARTITIONS}
        self.written = [one for one in self.written if one.place not in gone]

    @rule()
    def another_owner(self) -> None:
        self.shard.reload()

    @invariant()
    def the_last_one_that_counts_stands(self) -> None:
        for group in GROUPS:
            committed, unstable = {}, set()
            for one in self.written:
                if one.place.group_id == group and one.counts:
                    committed[one.place.partition] = one.offset
            for one in self.written:
                partition = one.place.partition
                is_open = one.place.group_id == group and one.counts is None
                if is_open and one.offset > committed.get(partition, 0):
                    unstable.add(partition)
            kept = self.shard.request(FetchOffsets(group), GroupOffsets)
            assert {one: value.offset for one, value in kept.committed.items()} == committed
            assert kept.unstable == unstable

    @invariant()
    def so_it_is_for_who_reads_the_log_as_kafkas_topic(self) -> None:
        shown = CommittedOffsets()
        for record in map(GroupCodec().decode, self.shard.log):
            if isinstance(record, OffsetRecord):
                shown.apply(record)
        for group in GROUPS:
            assert shown.of(group) == self.shard.machine.consumers.offsets.of(group)


TestOffsets = Offsets.TestCase
TestOffsets.settings = settings(stateful_step_count=40, max_examples=scaled(150))
