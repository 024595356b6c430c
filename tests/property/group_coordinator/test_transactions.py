"""Producers, a coordinator, partitions and a consumer group: transactions are atomic whatever is
interrupted.

After every record the shard is replayed and compared with the live one (`TransactionHarness.take`).
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.consumer_groups.commands import (
    CommitInTransaction,
    Committed,
    CompleteTransaction,
    FetchOffsets,
    GroupOffsets,
    MemberIdentity,
)
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import (
    UnverifiedOffsetsError as UnverifiedOffsetsError,
)
from sharebroker_server.group_coordinator.core.transactions import model, rules
from sharebroker_server.group_coordinator.core.transactions.commands import (
    AddPartitions,
    End,
    Ended,
    InitProducerId,
    ProducerIdAndEpoch,
    ReadEnding,
    VerifyPartitions,
)
from sharebroker_server.group_coordinator.core.transactions.model import (
    PREPARE_COMMIT,
    RENEWS_EPOCH,
    Transaction,
)
from sharebroker_server.record_log.core.batch import parse_headers
from sharebroker_server.record_log.core.producers import Marker, UnverifiedError, Verified
from sharebroker_server.record_log.core.snapshots import load_snapshots, snapshots_of
from sharebroker_server.record_log.core.transactions import Draft, Transactions
from tests.support.examples import scaled
from tests.unit.group_coordinator.consumer_harness import ConsumerHarness
from tests.unit.group_coordinator.transaction_harness import TransactionHarness
from tests.unit.record_log.batches import LIMIT, batch

NAMES, PARTITIONS, GROUP = ("a", "b"), (0, 1), 2
"""One more partition represents the consumer group."""

MOST_CLIENTS = 6
names, partitions = st.sampled_from(NAMES), st.sampled_from((*PARTITIONS, GROUP))
kinds = st.sampled_from([1, RENEWS_EPOCH])
Tag = tuple[int, int]


@dataclass
class Partition:
    """A partition's log: the transaction of each batch, by offset."""

    transactions: Transactions = field(default_factory=Transactions)
    kept: dict[str, bytes] = field(default_factory=dict)
    end: int = 0
    tags: dict[int, tuple[int, Tag]] = field(default_factory=dict)

    def append(
        self, producer: ProducerIdAndEpoch, sequence: int, tag: Tag, verified: Verified | None
    ) -> None:
        epoch, id_ = producer.producer_epoch, producer.producer_id
        (header,) = parse_headers(batch(1, producer=(id_, epoch, sequence), transactional=True), LIMIT)
        draft = self.transactions.draft()
        assert draft.append(header, self.end, 1, verified) is None
        self.tags[self.end] = id_, tag
        self._commit(draft)

    def mark(self, marker: Marker) -> None:
        draft = self.transactions.draft()
        draft.end(marker, self.end, 1)
        self._commit(draft)

    def restart(self) -> None:
        """Opens the log at another leader."""
        self.transactions = load_snapshots(self.kept)

    def committed(self) -> Iterator[tuple[Tag, bool]]:
        """Returns each transaction with a record here, and whether it is committed."""
        for offset, (producer_id, tag) in self.tags.items():
            aborted = self.transactions.aborted_in(offset, offset + 1)
            yield tag, producer_id not in {one.producer_id for one in aborted}

    def _commit(self, draft: Draft) -> None:
        self.kept |= snapshots_of(draft)
        self.transactions.commit(draft)
        self.end += 1


class Group:
    """A consumer group's shard: each transaction commits an offset of a partition that represents it.

    `marks` are the received markers: offsets confirmed before the last one no longer count.
    """

    def __init__(self, shard: ConsumerHarness) -> None:
        self.shard = shard
        self.tags: set[Tag] = set()
        self.marks = 0

    def commit(self, producer: ProducerIdAndEpoch, tag: Tag, coordinator_epoch: int | None) -> None:
        offsets = {_of(tag): Committed(1)}
        identity = MemberIdentity("g", -1, "")
        self.shard.send(
            CommitInTransaction(
                identity, producer.producer_id, producer.producer_epoch, offsets, coordinator_epoch
            )
        )
        self.tags.add(tag)

    def mark(self, marker: Marker) -> None:
        self.marks += 1
        self.shard.send(CompleteTransaction(*marker))

    def fates(self) -> dict[Tag, bool | None]:
        """Returns whether each transaction is committed, None for an open one."""
        kept = self.shard.request(FetchOffsets("g"), GroupOffsets)
        return {tag: None if _of(tag) in kept.unstable else _of(tag) in kept.committed for tag in self.tags}


def _of(tag: Tag) -> TopicIdPartition:
    return TopicIdPartition(f"client{tag[0]}", tag[1])


@dataclass
class Client:
    """A producer; it continues until another producer has its transactional id."""

    number: int
    name: str
    version: int
    producer: ProducerIdAndEpoch
    round: int = 0
    open: bool = False
    broken: bool = False
    fenced: bool = False
    last: bool = False
    ending: bool | None = None
    sequences: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def tag(self) -> Tag:
        return self.number, self.round

    def go_on(self, following: ProducerIdAndEpoch) -> None:
        assert following.producer_epoch <= model.LAST_EPOCH
        if following != self.producer:
            self.sequences.clear()
        self.producer = following
        self.round += 1
        self.open = self.broken = False
        self.fenced = self.last  # it cannot determine which of its sequences count
        self.ending = None


class Cluster(RuleBasedStateMachine):
    """`outcomes` are the transactions whose end was acknowledged."""

    new_shard: type[TransactionHarness] = TransactionHarness
    new_group_shard: type[ConsumerHarness] = ConsumerHarness

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for module in (model, rules):
            self.patch.setattr(module, "LAST_EPOCH", 3)
        self.shard = self.new_shard()
        self.coordinator_epoch = 1
        self.partitions = {number: Partition() for number in PARTITIONS}
        self.clients: list[Client] = []
        self.outcomes: dict[Tag, bool] = {}
        self.group = Group(self.new_group_shard())
        self.late: list[tuple[int, ProducerIdAndEpoch, Tag, Verified]] = []
        self.late_offsets: list[tuple[ProducerIdAndEpoch, Tag, int]] = []

    @initialize(versions=st.tuples(kinds, kinds))
    def begin(self, versions: tuple[int, int]) -> None:
        for name, version in zip(NAMES, versions, strict=True):
            self.start(name, version)

    @precondition(lambda self: len(self.clients) < MOST_CLIENTS)
    @rule(name=names, version=kinds)
    def start(self, name: str, version: int) -> None:
        """Starts a new producer, which takes over the transactional id."""
        for _ in range(3):  # the end of a transaction, then of an open one that is aborted
            with contextlib.suppress(KafkaError):
                reply = self.shard.execute(InitProducerId(name, 60_000))
                if isinstance(reply, ProducerIdAndEpoch):
                    self.clients.append(Client(len(self.clients), name, version, reply))
                    return
            self.finish(name)
        raise AssertionError(f"{name} cannot be initialised")

    @rule(data=st.data(), where=st.lists(partitions, min_size=1, max_size=3))
    def write(self, data: st.DataObject, where: list[int]) -> None:
        client = self.client(data)
        for partition in where:
            if client.ending is None and not client.broken and not client.fenced:
                client.open = True
                try:
                    self.append(client, partition)
                except KafkaError as error:
                    self.refused(client, error)

    def append(self, client: Client, partition: int) -> None:
        """Appends one record, or the group's offset. Raises KafkaError."""
        if partition == GROUP:
            self.append_offset(client)
            return
        log, sequence = self.partitions[partition], client.sequences[partition]
        if client.version < RENEWS_EPOCH:
            self.send(AddPartitions(client.name, client.producer, at(partition), client.version))
        try:
            log.append(client.producer, sequence, client.tag, None)
        except UnverifiedError:
            log.append(client.producer, sequence, client.tag, self.verify(client, partition))
        client.sequences[partition] += 1

    def append_offset(self, client: Client) -> None:
        if client.version < RENEWS_EPOCH:
            self.send(AddPartitions(client.name, client.producer, at(GROUP), client.version))
        try:
            self.group.commit(client.producer, client.tag, None)
        except UnverifiedOffsetsError:
            self.verify(client, GROUP)
            self.group.commit(client.producer, client.tag, self.coordinator_epoch)

    @rule(data=st.data(), partition=partitions)
    def write_late(self, data: st.DataObject, partition: int) -> None:
        """Appends a record long after its leader has verified the transaction with the coordinator."""
        client = self.client(data)
        if client.ending is not None or client.broken or client.fenced or client.sequences[partition]:
            return
        client.open = client.broken = client.last = True
        with contextlib.suppress(KafkaError):
            if client.version < RENEWS_EPOCH:
                self.send(AddPartitions(client.name, client.producer, at(partition), client.version))
            verified = self.verify(client, partition)
            if partition == GROUP:
                self.late_offsets.append((client.producer, client.tag, self.group.marks))
            else:
                self.late.append((partition, client.producer, client.tag, verified))

    @precondition(lambda self: self.late or self.late_offsets)
    @rule()
    def append_late(self) -> None:
        with contextlib.suppress(KafkaError):
            if self.late:
                partition, producer, tag, verified = self.late.pop()
                self.partitions[partition].append(producer, 0, tag, verified)
            else:
                producer, tag, marks = self.late_offsets.pop()
                if marks == self.group.marks:
                    self.group.commit(producer, tag, self.coordinator_epoch)

    @rule(data=st.data(), commit=st.booleans(), lost=st.sampled_from([False, False, True]))
    def end(self, data: st.DataObject, commit: bool, lost: bool) -> None:
        """Ends a producer's transaction, or repeats the request after a lost response."""
        client = self.client(data)
        if not client.open or client.fenced:
            return
        if client.ending is None:
            client.ending = commit and not client.broken
        command = End(client.name, client.producer, client.ending, client.version)
        try:
            reply = self.shard.execute(command)
        except KafkaError as error:
            self.refused(client, error)
            return
        if lost:
            return
        assert isinstance(reply, ProducerIdAndEpoch)
        self.outcomes[client.tag] = client.ending
        client.go_on(reply)

    @rule(name=names, partition=st.none() | partitions)
    def mark(self, name: str, partition: int | None) -> None:
        """Writes one partition's marker, perhaps again, or all, which the coordinator records."""
        ending = self.ending(name)
        if partition is None:
            self.finish(name)
        elif ending is not None and TopicIdPartition("t", partition) in ending.partitions:
            self.mark_at(partition, self.marker(ending))

    def mark_at(self, partition: int, marker: Marker) -> None:
        (self.group if partition == GROUP else self.partitions[partition]).mark(marker)

    def finish(self, name: str) -> None:
        ending = self.ending(name)
        if ending is not None:
            for partition in ending.partitions:
                self.mark_at(partition.partition, self.marker(ending))
            ended = Ended(name, ProducerIdAndEpoch(ending.producer_id, ending.producer_epoch))
            self.shard.execute(ended)

    def ending(self, name: str) -> Transaction | None:
        ending = self.shard.decide(ReadEnding(name)).reply
        return ending if isinstance(ending, Transaction) else None

    @rule(partition=st.none() | partitions)
    def another_owner(self, partition: int | None) -> None:
        """Replaces the owner of the coordinator's shard, or of a partition."""
        if partition == GROUP:
            self.group.shard.reload()
            self.group.marks += 1  # a query about a transaction finds that the shard has moved
        elif partition is not None:
            self.partitions[partition].restart()
        else:
            self.shard.reload()
            self.coordinator_epoch += 1

    @rule(seconds=st.sampled_from([1, 20, 61]))
    def wait(self, seconds: int) -> None:
        self.shard.pass_time(seconds)

    @invariant()
    def confirmed_outcomes_are_in_effect(self) -> None:
        for transaction in self.shard.machine.transactions.values():
            assert transaction.producer_epoch <= model.LAST_EPOCH + 1
        for partition in self.partitions.values():
            stable = partition.transactions.first_unstable_offset()
            for offset, (_, tag) in partition.tags.items():
                if stable is not None and offset >= stable:
                    break
                committed = dict(partition.committed())[tag]
                assert self.outcomes.get(tag, committed) == committed
        for tag, fate in self.group.fates().items():
            assert fate is None or self.outcomes.get(tag, fate) == fate

    def teardown(self) -> None:
        """Checks that every transaction is decided at the end, equally everywhere, and as acknowledged."""
        try:
            self.settle()
        finally:
            self.patch.undo()

    def settle(self) -> None:
        self.shard.pass_time(61)
        for name in NAMES:
            self.finish(name)
        while self.late or self.late_offsets:
            self.append_late()
        fates: dict[Tag, set[bool]] = defaultdict(set)
        for partition in self.partitions.values():
            assert partition.transactions.first_unstable_offset() is None
            for tag, committed in partition.committed():
                fates[tag].add(committed)
        for tag, known in self.group.fates().items():
            assert known is not None
            fates[tag].add(known)
        for tag, fate in fates.items():
            assert len(fate) == 1
            assert self.outcomes.get(tag, fate == {True}) == (fate == {True})

    def client(self, data: st.DataObject) -> Client:
        """Returns mostly a current client, sometimes a replaced one."""
        latest = list({client.name: client for client in self.clients}.values())
        return data.draw(st.sampled_from(latest * 4 + self.clients))

    def verify(self, client: Client, partition: int) -> Verified:
        """Verifies a transaction as a leader does before its first batch."""
        end = 0 if partition == GROUP else self.partitions[partition].end
        verified = Verified(end, client.version >= RENEWS_EPOCH)
        if client.version >= RENEWS_EPOCH:
            self.send(AddPartitions(client.name, client.producer, at(partition), client.version))
        else:
            asked = VerifyPartitions(client.name, client.producer, at(partition))
            if self.shard.decide(asked).reply != at(partition):
                raise KafkaError(ErrorCode.TRANSACTION_ABORTABLE)
        return verified

    def send(self, command: AddPartitions) -> None:
        self.shard.execute(command)

    def refused(self, client: Client, error: KafkaError) -> None:
        if error.code in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.TRANSACTION_ABORTABLE):
            client.broken |= error.code is ErrorCode.TRANSACTION_ABORTABLE
            return
        # Only a replaced or too slow producer is rejected permanently.
        assert error.code in (
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ErrorCode.INVALID_TXN_STATE,
        )
        client.fenced = True

    def marker(self, ending: Transaction) -> Marker:
        return Marker(
            ending.producer_id,
            ending.producer_epoch,
            self.coordinator_epoch,
            ending.state is PREPARE_COMMIT,
        )


def at(partition: int) -> frozenset[TopicIdPartition]:
    return frozenset({TopicIdPartition("t", partition)})


TestCluster = Cluster.TestCase
TestCluster.settings = settings(stateful_step_count=60, max_examples=scaled(150))
