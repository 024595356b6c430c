"""Transactions of one shard: permitted operations, timeouts and crashes."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server import live_keys
from sharebroker_server.group_coordinator.core.transactions.commands import (
    AddPartitions,
    Describe,
    End,
    Ended,
    InitProducerId,
    ListTransactions,
    NewProducer,
    ProducerIdAndEpoch,
    ReadEnding,
    VerifyPartitions,
)
from sharebroker_server.group_coordinator.core.transactions.model import (
    BLOCK,
    LAST_EPOCH,
    IdAllocation,
    ProducerIds,
    Transaction,
    TransactionState,
)
from tests.unit.group_coordinator.transaction_harness import MINUTE, P0, P1, P2, TransactionHarness, aborting

S = TransactionState
V2 = 2


@pytest.fixture
def shard() -> TransactionHarness:
    return TransactionHarness()


# Producer ids


def test_transactional_ids_of_a_shard_are_limited(shard: TransactionHarness) -> None:
    shard.cluster.broker = shard.cluster.broker.override({"transaction.max.transactional.ids": "1"})
    shard.request(InitProducerId("a", MINUTE), ProducerIdAndEpoch)
    assert shard.refuses(InitProducerId("b", MINUTE)) is ErrorCode.POLICY_VIOLATION
    shard.request(InitProducerId("a", MINUTE), ProducerIdAndEpoch)


def test_producer_ids_of_shards_are_disjoint() -> None:
    drawn = []
    for ids in [ProducerIds(shard, 3) for shard in range(3)]:
        for _ in range(2 * BLOCK):
            allocation = IdAllocation(ids)
            drawn.append(allocation.new_id())
            ids.end, ids.remaining = allocation.end, allocation.remaining
    assert len(set(drawn)) == len(drawn) == 6 * BLOCK


def test_block_of_producer_ids_is_recorded_before_its_first_id(shard: TransactionHarness) -> None:
    ids = [shard.request(NewProducer(), ProducerIdAndEpoch).producer_id for _ in range(BLOCK + 1)]
    assert ids == [3 + 50 * n for n in range(BLOCK + 1)]
    assert (shard.machine.ids.end, len(shard.log)) == (2 * BLOCK, 2)


def test_new_owner_skips_remaining_producer_ids_of_the_block(shard: TransactionHarness) -> None:
    shard.request(NewProducer(), ProducerIdAndEpoch)
    shard.reload()
    assert shard.request(NewProducer(), ProducerIdAndEpoch) == ProducerIdAndEpoch(3 + 50 * BLOCK, 0)


def test_discarded_decision_assigns_no_id(shard: TransactionHarness) -> None:
    shard.machine.decide(NewProducer(), shard.now)  # not accepted
    decision = shard.machine.decide(NewProducer(), shard.now)
    assert len(decision.records) == 1
    assert decision.reply == ProducerIdAndEpoch(3, 0)


# InitProducerId


def test_each_call_raises_the_epoch(shard: TransactionHarness) -> None:
    first, second = shard.initialize(), shard.initialize()
    assert first == ProducerIdAndEpoch(3, 0)
    assert second == ProducerIdAndEpoch(3, 1)
    assert shard.refuses(AddPartitions("x", first, frozenset({P0}))) is ErrorCode.PRODUCER_FENCED
    assert shard.initialize("y").producer_id != first.producer_id


@pytest.mark.parametrize("timeout", [0, -1, 15 * MINUTE + 1])
def test_a_timeout_has_bounds(shard: TransactionHarness, timeout: int) -> None:
    assert shard.refuses(InitProducerId("x", timeout)) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_transactional_id_is_not_empty(shard: TransactionHarness) -> None:
    assert shard.refuses(InitProducerId("", MINUTE)) is ErrorCode.INVALID_REQUEST


def test_resuming_producer_raises_its_epoch_once(
    shard: TransactionHarness,
) -> None:
    had = shard.initialize()
    assert shard.initialize(had=had) == shard.initialize(had=had) == ProducerIdAndEpoch(3, 1)
    assert shard.refuses(InitProducerId("x", MINUTE, ProducerIdAndEpoch(3, 9))) is ErrorCode.PRODUCER_FENCED
    assert shard.initialize() == ProducerIdAndEpoch(3, 2)
    for stale in (had, ProducerIdAndEpoch(3, 1), ProducerIdAndEpoch(99, 2)):
        assert shard.refuses(InitProducerId("x", MINUTE, stale)) is ErrorCode.PRODUCER_FENCED


def test_expired_transactional_id_starts_again(shard: TransactionHarness) -> None:
    assert shard.initialize(had=ProducerIdAndEpoch(77, 5)) == ProducerIdAndEpoch(3, 0)


def test_an_open_transaction_is_aborted_first(shard: TransactionHarness) -> None:
    zombie = shard.begun(P0, P1)
    aborting(shard, InitProducerId("x", MINUTE))
    assert (shard.of().state, shard.of().producer_epoch) == (S.PREPARE_ABORT, 1)
    assert shard.refuses(InitProducerId("x", MINUTE)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shard.refuses(End("x", zombie, commit=True)) is ErrorCode.PRODUCER_FENCED
    assert shard.finish().partitions == {P0, P1}
    assert shard.initialize() == ProducerIdAndEpoch(3, 2)


def exhausted(shard: TransactionHarness) -> ProducerIdAndEpoch:
    """A producer with its last epoch."""
    shard.initialize()
    shard.machine.transactions["x"] = last = Transaction(3, LAST_EPOCH, MINUTE, updated_ms=1)
    return ProducerIdAndEpoch(3, last.producer_epoch)


def test_exhausted_epochs_rotate_the_producer_id(shard: TransactionHarness) -> None:
    had = exhausted(shard)
    new = shard.initialize(had=had)
    assert new == ProducerIdAndEpoch(53, 0)
    assert shard.initialize(had=had) == new  # its response was lost
    shard.machine.transactions["x"] = Transaction(3, LAST_EPOCH, MINUTE, updated_ms=1)
    assert shard.initialize() == ProducerIdAndEpoch(103, 0)
    assert shard.refuses(InitProducerId("x", MINUTE, had)) is ErrorCode.PRODUCER_FENCED


# AddPartitionsToTxn


def test_a_transaction_begins_with_its_first_partition(shard: TransactionHarness) -> None:
    producer = shard.begun(P0)
    shard.now += 5
    shard.add(producer, P1)
    size = len(shard.log)
    shard.add(producer, P0, P1)
    shard.add(producer)
    assert len(shard.log) == size
    assert shard.of().partitions == {P0, P1}
    assert (shard.of().start_ms, shard.of().updated_ms) == (1_000_000, 1_005_000)


def test_partitions_are_verified(shard: TransactionHarness) -> None:
    producer = shard.begun(P0, P1)
    partitions = frozenset({P1, P2})
    assert shard.request(VerifyPartitions("x", producer, partitions), frozenset) == {P1}
    shard.end(producer)
    assert shard.refuses(VerifyPartitions("x", producer, partitions)) is ErrorCode.CONCURRENT_TRANSACTIONS
    shard.finish()
    assert shard.request(VerifyPartitions("x", producer, partitions), frozenset) == frozenset()


STRANGERS = [
    ("y", ProducerIdAndEpoch(3, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ("x", ProducerIdAndEpoch(4, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ("x", ProducerIdAndEpoch(3, 1), ErrorCode.PRODUCER_FENCED),
    ("x", ProducerIdAndEpoch(3, -1), ErrorCode.PRODUCER_FENCED),
]


@pytest.mark.parametrize(("name", "producer", "code"), STRANGERS)
def test_unknown_producers_are_rejected(
    shard: TransactionHarness, name: str, producer: ProducerIdAndEpoch, code: ErrorCode
) -> None:
    shard.begun()
    assert shard.refuses(AddPartitions(name, producer, frozenset({P0}))) is code
    assert shard.refuses(VerifyPartitions(name, producer, frozenset({P0}))) is code
    assert shard.refuses(End(name, producer, commit=True)) is code


# EndTxn, with an epoch that stays


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_with_its_markers(shard: TransactionHarness, commit: bool) -> None:
    producer = shard.begun(P0, P1)
    assert shard.end(producer, commit=commit) == producer
    assert shard.of().state is (S.PREPARE_COMMIT if commit else S.PREPARE_ABORT)
    assert shard.refuses(End("x", producer, commit)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shard.refuses(End("x", producer, not commit)) is ErrorCode.INVALID_TXN_STATE
    add = AddPartitions("x", producer, frozenset({P0}))
    assert shard.refuses(add) is ErrorCode.CONCURRENT_TRANSACTIONS
    shard.finish()
    assert shard.of().state is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
    assert shard.of().partitions == frozenset()
    assert shard.end(producer, commit=commit) == producer
    assert shard.refuses(End("x", producer, not commit)) is ErrorCode.INVALID_TXN_STATE
    shard.add(producer, P2)
    assert shard.of().partitions == {P2}


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_that_never_began_cannot_end(shard: TransactionHarness, commit: bool) -> None:
    producer = shard.initialize()
    assert shard.refuses(End("x", producer, commit)) is ErrorCode.INVALID_TXN_STATE


def test_completion_names_the_producer_of_the_transaction(shard: TransactionHarness) -> None:
    producer = shard.begun()
    shard.request(Ended("x", producer), type(None))
    shard.request(Ended("unknown", producer), type(None))
    assert shard.of().state is S.ONGOING
    shard.end(producer)
    shard.request(Ended("x", ProducerIdAndEpoch(3, 9)), type(None))
    assert shard.of().state is S.PREPARE_COMMIT
    shard.finish()
    assert shard.request(ReadEnding("x"), type(None)) is None


# EndTxn, with an epoch for each transaction


@pytest.mark.parametrize("commit", [True, False])
def test_repeated_end_raises_the_epoch_once(shard: TransactionHarness, commit: bool) -> None:
    producer = shard.begun(version=V2)
    following = shard.end(producer, commit=commit, version=V2)
    assert following == ProducerIdAndEpoch(3, 1)
    assert shard.refuses(End("x", producer, commit, V2)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shard.refuses(End("x", producer, not commit, V2)) is ErrorCode.INVALID_TXN_STATE
    for of_the_next in (True, False):  # either outcome has to wait
        assert shard.refuses(End("x", following, of_the_next, V2)) is ErrorCode.CONCURRENT_TRANSACTIONS
    add = AddPartitions("x", following, frozenset({P0}), V2)
    assert shard.refuses(add) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shard.finish().producer_epoch == 1  # markers carry it: late requests of epoch 0 are fenced
    assert shard.end(producer, commit=commit, version=V2) == following
    assert shard.refuses(End("x", producer, not commit, V2)) is ErrorCode.INVALID_TXN_STATE
    shard.add(following, P1, version=V2)
    assert shard.refuses(End("x", producer, commit, V2)) is ErrorCode.PRODUCER_FENCED


def test_abort_without_partitions_raises_the_epoch(shard: TransactionHarness) -> None:
    producer = shard.initialize()
    for epoch in (1, 2):
        producer = shard.end(producer, commit=False, version=V2)
        assert producer == ProducerIdAndEpoch(3, epoch)
        assert shard.of().state is S.COMPLETE_ABORT
    assert shard.end(ProducerIdAndEpoch(3, 1), commit=False, version=V2) == producer
    assert shard.refuses(End("x", producer, True, V2)) is ErrorCode.INVALID_TXN_STATE
    shard.add(producer, P0, version=V2)
    shard.end(producer, version=V2)
    shard.finish()
    assert shard.refuses(End("x", ProducerIdAndEpoch(3, 3), True, V2)) is ErrorCode.INVALID_TXN_STATE


def test_end_with_the_last_epoch_rotates_the_producer_id(shard: TransactionHarness) -> None:
    producer = exhausted(shard)
    shard.add(producer, P0, version=V2)
    following = shard.end(producer, version=V2)
    assert following == ProducerIdAndEpoch(53, 0)
    add = AddPartitions("x", following, frozenset({P0}), V2)
    assert shard.refuses(add) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shard.refuses(End("x", producer, True, V2)) is ErrorCode.CONCURRENT_TRANSACTIONS
    ending = shard.finish()
    assert (ending.producer_id, ending.producer_epoch) == (3, LAST_EPOCH + 1)
    assert (shard.of().producer_id, shard.of().previous_producer_id) == (53, 3)
    assert shard.end(producer, version=V2) == following
    shard.add(following, P1, version=V2)


def test_abort_without_partitions_rotates_an_exhausted_producer_id(shard: TransactionHarness) -> None:
    producer = exhausted(shard)
    following = shard.end(producer, commit=False, version=V2)
    assert following == ProducerIdAndEpoch(53, 0)
    assert shard.end(producer, commit=False, version=V2) == following


def test_fenced_epoch_is_no_repeated_end(shard: TransactionHarness) -> None:
    producer = shard.begun(version=V2)
    aborting(shard, InitProducerId("x", MINUTE))
    assert shard.refuses(End("x", producer, False, V2)) is ErrorCode.PRODUCER_FENCED
    shard.finish()
    assert shard.refuses(End("x", producer, False, V2)) is ErrorCode.PRODUCER_FENCED


# Time


def test_timed_out_transaction_is_aborted_and_its_producer_fenced(shard: TransactionHarness) -> None:
    slow = shard.begun(P0)
    quick = shard.initialize("y", timeout_ms=10 * MINUTE)
    shard.add(quick, P1, name="y")
    shard.pass_time(59)
    assert shard.of().state is S.ONGOING
    shard.pass_time(1)
    assert (shard.of().state, shard.of("y").state) == (S.PREPARE_ABORT, S.ONGOING)
    assert shard.refuses(End("x", slow, commit=True)) is ErrorCode.PRODUCER_FENCED
    shard.finish()
    assert shard.refuses(AddPartitions("x", slow, frozenset({P0}))) is ErrorCode.PRODUCER_FENCED
    shard.pass_time(540)
    assert shard.of("y").state is S.PREPARE_ABORT


def test_each_transaction_has_the_full_timeout(shard: TransactionHarness) -> None:
    producer = shard.begun(P0)
    shard.pass_time(40)
    shard.end(producer)
    shard.finish()
    shard.add(producer, P0)
    shard.pass_time(40)
    assert shard.of().state is S.ONGOING
    shard.pass_time(20)
    assert shard.of().state is S.PREPARE_ABORT


def test_deadline_of_an_ended_transaction_is_ignored(shard: TransactionHarness) -> None:
    shard.end(shard.begun(P0))
    shard.finish()
    shard.pass_time(120)
    assert shard.of().state is S.COMPLETE_COMMIT


def test_unused_transactional_id_expires(shard: TransactionHarness) -> None:
    shard.end(shard.begun(P0))
    shard.finish()
    shard.initialize("y")
    shard.pass_time(1800)
    shard.initialize("y")
    shard.pass_time(1800)
    assert list(shard.machine.transactions) == ["y"]
    assert shard.initialize().producer_id != 3


def test_longer_expiration_applies_to_idle_transactional_ids(shard: TransactionHarness) -> None:
    shard.initialize()
    shard.cluster.broker = shard.cluster.broker.override({"transactional.id.expiration.ms": "7200000"})
    shard.pass_time(3600)
    assert "x" in shard.machine.transactions
    shard.pass_time(3600)
    assert "x" not in shard.machine.transactions


def test_an_open_transaction_does_not_expire(shard: TransactionHarness) -> None:
    shard.cluster.broker = shard.cluster.broker.override({"transactional.id.expiration.ms": "1000"})
    shard.begun(P0)
    shard.pass_time(30)
    assert shard.of().state is S.ONGOING


# A new owner


def test_new_owner_completes_decided_transactions_only(shard: TransactionHarness) -> None:
    for name in ("a", "b", "c"):
        producer = shard.initialize(name)
        shard.add(producer, P0, name=name)
        if name != "c":
            shard.end(producer, name=name)
    shard.finish("b")
    shard.completions.clear()
    shard.reload()
    assert shard.machine.next_deadline() == 0.0
    shard.pass_time(0)
    assert shard.completions == ["a"]
    assert shard.machine.next_deadline() != 0.0
    assert shard.finish("a").partitions == {P0}


def test_the_log_stays_short(shard: TransactionHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_keys, "SLACK", 4)
    quiet = shard.initialize("quiet")
    for _ in range(50):
        shard.end(shard.begun(P0))
        shard.finish()
        shard.request(NewProducer(), ProducerIdAndEpoch)
    assert len(shard.log) + 1 - shard.machine.trim_before() < 20
    shard.reload()
    assert shard.initialize("quiet") == ProducerIdAndEpoch(quiet.producer_id, 1)


# Descriptions


def test_transactions_are_described(shard: TransactionHarness) -> None:
    producer = shard.begun(P1, P0)
    described = shard.request(Describe("x"), Transaction)
    assert (described.state.value, described.producer_id) == ("Ongoing", producer.producer_id)
    assert shard.refuses(Describe("y")) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_transactions_are_listed(shard: TransactionHarness) -> None:
    shard.begun(P0)
    shard.now += 10
    shard.initialize("y")
    other = shard.initialize("z")
    shard.add(other, P0, name="z")

    def found(command: ListTransactions) -> list[str]:
        return sorted(shard.request(command, dict))

    assert found(ListTransactions()) == ["x", "y", "z"]
    assert found(ListTransactions(states=frozenset({S.EMPTY}))) == ["y"]
    assert found(ListTransactions(producer_ids=frozenset({other.producer_id, 99}))) == ["z"]
    assert found(ListTransactions(longer_than_ms=9_999)) == ["x"]
    assert found(ListTransactions(longer_than_ms=0)) == ["x"]
