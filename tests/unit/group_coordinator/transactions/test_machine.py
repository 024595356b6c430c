"""Transactions of one shard: who may do what, and what follows from silence and crashes."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.compaction import live_keys
from sharebroker_server.group_coordinator.core.transactions.commands import (
    AddPartitions,
    AskEnding,
    Describe,
    End,
    Ended,
    Initialize,
    ListTransactions,
    NewProducer,
    Producer,
    VerifyPartitions,
)
from sharebroker_server.group_coordinator.core.transactions.ids import BLOCK, ProducerIds
from sharebroker_server.group_coordinator.core.transactions.model import (
    LAST_EPOCH,
    MOVES,
    IllegalTransitionError,
    Transaction,
    TransactionState,
)
from tests.unit.group_coordinator.transactions.shard import (
    MINUTE,
    P0,
    P1,
    P2,
    TransactionShard,
    aborting,
)

S = TransactionState
V2 = 2


@pytest.fixture
def shard() -> TransactionShard:
    return TransactionShard()


# Producer ids


def test_a_shard_has_so_many_transactional_ids_at_most(shard: TransactionShard) -> None:
    shard.cluster.broker = shard.cluster.broker.override({"transaction.max.transactional.ids": "1"})
    shard.ask(Initialize("a", MINUTE), Producer)
    assert shard.refuses(Initialize("b", MINUTE)) is ErrorCode.POLICY_VIOLATION
    shard.ask(Initialize("a", MINUTE), Producer)


def test_ids_of_different_shards_never_meet() -> None:
    drawn = []
    for ids in [ProducerIds(shard, 3) for shard in range(3)]:
        for _ in range(2 * BLOCK):
            producer_id, end = ids.take()
            ids.end = end or ids.end
            drawn.append(producer_id)
    assert len(set(drawn)) == len(drawn) == 6 * BLOCK


def test_a_block_is_recorded_before_an_id_of_it_is_given(shard: TransactionShard) -> None:
    ids = [shard.ask(NewProducer(), Producer).producer_id for _ in range(BLOCK + 1)]
    assert ids == [3 + 50 * n for n in range(BLOCK + 1)]
    assert (shard.machine.ids.end, len(shard.log)) == (2 * BLOCK, 2)


def test_a_new_owner_skips_what_was_left_of_the_block(shard: TransactionShard) -> None:
    shard.ask(NewProducer(), Producer)
    shard.reload()
    assert shard.ask(NewProducer(), Producer) == Producer(3 + 50 * BLOCK, 0)


def test_ids_of_a_block_whose_record_was_not_taken_are_not_given(shard: TransactionShard) -> None:
    shard.machine.decide(NewProducer(), shard.now)  # the log did not take it
    records, reply = shard.machine.decide(NewProducer(), shard.now)
    assert len(records) == 1
    assert reply == Producer(3, 0)


# InitProducerId


def test_each_call_raises_the_epoch(shard: TransactionShard) -> None:
    first, second = shard.initialize(), shard.initialize()
    assert first == Producer(3, 0)
    assert second == Producer(3, 1)
    assert shard.refuses(AddPartitions("x", first, frozenset({P0}))) is ErrorCode.PRODUCER_FENCED
    assert shard.initialize("y").producer_id != first.producer_id


@pytest.mark.parametrize("timeout", [0, -1, 15 * MINUTE + 1])
def test_a_timeout_has_bounds(shard: TransactionShard, timeout: int) -> None:
    assert shard.refuses(Initialize("x", timeout)) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_transactional_id_is_not_empty(shard: TransactionShard) -> None:
    assert shard.refuses(Initialize("", MINUTE)) is ErrorCode.INVALID_REQUEST


def test_who_goes_on_after_an_error_raises_its_epoch_once_however_often_it_asks(
    shard: TransactionShard,
) -> None:
    had = shard.initialize()
    assert shard.initialize(had=had) == shard.initialize(had=had) == Producer(3, 1)
    assert shard.refuses(Initialize("x", MINUTE, Producer(3, 9))) is ErrorCode.PRODUCER_FENCED
    assert shard.initialize() == Producer(3, 2)
    for stale in (had, Producer(3, 1), Producer(99, 2)):
        assert shard.refuses(Initialize("x", MINUTE, stale)) is ErrorCode.PRODUCER_FENCED


def test_who_was_forgotten_begins_anew(shard: TransactionShard) -> None:
    assert shard.initialize(had=Producer(77, 5)) == Producer(3, 0)


def test_an_open_transaction_is_aborted_first(shard: TransactionShard) -> None:
    zombie = shard.begun(P0, P1)
    aborting(shard, Initialize("x", MINUTE))
    assert (shard.of().state, shard.of().producer_epoch) == (S.PREPARE_ABORT, 1)
    assert shard.refuses(Initialize("x", MINUTE)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shard.refuses(End("x", zombie, commit=True)) is ErrorCode.PRODUCER_FENCED
    assert shard.finish().partitions == {P0, P1}
    assert shard.initialize() == Producer(3, 2)


def exhausted(shard: TransactionShard) -> Producer:
    """A producer with its last epoch."""
    shard.initialize()
    shard.machine.transactions["x"] = last = Transaction(3, LAST_EPOCH, MINUTE, updated_ms=1)
    return Producer(3, last.producer_epoch)


def test_when_epochs_run_out_there_is_a_new_producer_id(shard: TransactionShard) -> None:
    had = exhausted(shard)
    new = shard.initialize(had=had)
    assert new == Producer(53, 0)
    assert shard.initialize(had=had) == new  # its answer was lost
    shard.machine.transactions["x"] = Transaction(3, LAST_EPOCH, MINUTE, updated_ms=1)
    assert shard.initialize() == Producer(103, 0)
    assert shard.refuses(Initialize("x", MINUTE, had)) is ErrorCode.PRODUCER_FENCED


# AddPartitionsToTxn


def test_a_transaction_begins_with_its_first_partition(shard: TransactionShard) -> None:
    producer = shard.begun(P0)
    shard.now += 5
    shard.add(producer, P1)
    size = len(shard.log)
    shard.add(producer, P0, P1)
    shard.add(producer)
    assert len(shard.log) == size
    assert shard.of().partitions == {P0, P1}
    assert (shard.of().start_ms, shard.of().updated_ms) == (1_000_000, 1_005_000)


def test_partitions_are_verified(shard: TransactionShard) -> None:
    producer = shard.begun(P0, P1)
    asked = frozenset({P1, P2})
    assert shard.ask(VerifyPartitions("x", producer, asked), frozenset) == {P1}
    shard.end(producer)
    assert shard.refuses(VerifyPartitions("x", producer, asked)) is ErrorCode.CONCURRENT_TRANSACTIONS
    shard.finish()
    assert shard.ask(VerifyPartitions("x", producer, asked), frozenset) == frozenset()


STRANGERS = [
    ("y", Producer(3, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ("x", Producer(4, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ("x", Producer(3, 1), ErrorCode.PRODUCER_FENCED),
    ("x", Producer(3, -1), ErrorCode.PRODUCER_FENCED),
]


@pytest.mark.parametrize(("name", "producer", "code"), STRANGERS)
def test_strangers_are_refused(
    shard: TransactionShard, name: str, producer: Producer, code: ErrorCode
) -> None:
    shard.begun()
    assert shard.refuses(AddPartitions(name, producer, frozenset({P0}))) is code
    assert shard.refuses(VerifyPartitions(name, producer, frozenset({P0}))) is code
    assert shard.refuses(End(name, producer, commit=True)) is code


# EndTxn, with an epoch that stays


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_with_its_markers(shard: TransactionShard, commit: bool) -> None:
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
def test_nothing_that_was_not_begun_can_be_ended(shard: TransactionShard, commit: bool) -> None:
    producer = shard.initialize()
    assert shard.refuses(End("x", producer, commit)) is ErrorCode.INVALID_TXN_STATE


def test_who_says_that_markers_are_there_names_the_transaction(shard: TransactionShard) -> None:
    producer = shard.begun()
    shard.ask(Ended("x", producer), type(None))
    shard.ask(Ended("nobody", producer), type(None))
    assert shard.of().state is S.ONGOING
    shard.end(producer)
    shard.ask(Ended("x", Producer(3, 9)), type(None))
    assert shard.of().state is S.PREPARE_COMMIT
    shard.finish()
    assert shard.ask(AskEnding("x"), type(None)) is None


# EndTxn, with an epoch for each transaction


@pytest.mark.parametrize("commit", [True, False])
def test_the_end_raises_the_epoch_once_however_often_it_is_asked_for(
    shard: TransactionShard, commit: bool
) -> None:
    producer = shard.begun(version=V2)
    following = shard.end(producer, commit=commit, version=V2)
    assert following == Producer(3, 1)
    assert shard.refuses(End("x", producer, commit, V2)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shard.refuses(End("x", producer, not commit, V2)) is ErrorCode.INVALID_TXN_STATE
    for of_the_next in (True, False):  # whatever that comes to, it has to wait
        assert shard.refuses(End("x", following, of_the_next, V2)) is ErrorCode.CONCURRENT_TRANSACTIONS
    add = AddPartitions("x", following, frozenset({P0}), V2)
    assert shard.refuses(add) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shard.finish().producer_epoch == 1  # markers carry it: what comes late of epoch 0 is fenced
    assert shard.end(producer, commit=commit, version=V2) == following
    assert shard.refuses(End("x", producer, not commit, V2)) is ErrorCode.INVALID_TXN_STATE
    shard.add(following, P1, version=V2)
    assert shard.refuses(End("x", producer, commit, V2)) is ErrorCode.PRODUCER_FENCED


def test_an_abort_of_nothing_raises_the_epoch_too(shard: TransactionShard) -> None:
    producer = shard.initialize()
    for epoch in (1, 2):
        producer = shard.end(producer, commit=False, version=V2)
        assert producer == Producer(3, epoch)
        assert shard.of().state is S.COMPLETE_ABORT
    assert shard.end(Producer(3, 1), commit=False, version=V2) == producer
    assert shard.refuses(End("x", producer, True, V2)) is ErrorCode.INVALID_TXN_STATE
    shard.add(producer, P0, version=V2)
    shard.end(producer, version=V2)
    shard.finish()
    assert shard.refuses(End("x", Producer(3, 3), True, V2)) is ErrorCode.INVALID_TXN_STATE


def test_the_last_epoch_ends_with_another_producer_id(shard: TransactionShard) -> None:
    producer = exhausted(shard)
    shard.add(producer, P0, version=V2)
    following = shard.end(producer, version=V2)
    assert following == Producer(53, 0)
    add = AddPartitions("x", following, frozenset({P0}), V2)
    assert shard.refuses(add) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shard.refuses(End("x", producer, True, V2)) is ErrorCode.CONCURRENT_TRANSACTIONS
    ending = shard.finish()
    assert (ending.producer_id, ending.producer_epoch) == (3, LAST_EPOCH + 1)
    assert (shard.of().producer_id, shard.of().previous_producer_id) == (53, 3)
    assert shard.end(producer, version=V2) == following
    shard.add(following, P1, version=V2)


def test_the_last_epoch_may_abort_nothing(shard: TransactionShard) -> None:
    producer = exhausted(shard)
    following = shard.end(producer, commit=False, version=V2)
    assert following == Producer(53, 0)
    assert shard.end(producer, commit=False, version=V2) == following


def test_an_epoch_that_was_fenced_is_not_taken_for_a_repeated_end(shard: TransactionShard) -> None:
    producer = shard.begun(version=V2)
    aborting(shard, Initialize("x", MINUTE))
    assert shard.refuses(End("x", producer, False, V2)) is ErrorCode.PRODUCER_FENCED
    shard.finish()
    assert shard.refuses(End("x", producer, False, V2)) is ErrorCode.PRODUCER_FENCED


# Time


def test_what_takes_too_long_is_aborted_and_its_producer_fenced(shard: TransactionShard) -> None:
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


def test_each_transaction_has_the_whole_time(shard: TransactionShard) -> None:
    producer = shard.begun(P0)
    shard.pass_time(40)
    shard.end(producer)
    shard.finish()
    shard.add(producer, P0)
    shard.pass_time(40)
    assert shard.of().state is S.ONGOING
    shard.pass_time(20)
    assert shard.of().state is S.PREPARE_ABORT


def test_a_clock_of_a_transaction_that_ended_does_nothing(shard: TransactionShard) -> None:
    shard.end(shard.begun(P0))
    shard.finish()
    shard.pass_time(120)
    assert shard.of().state is S.COMPLETE_COMMIT


def test_a_transactional_id_that_nobody_uses_is_forgotten(shard: TransactionShard) -> None:
    shard.end(shard.begun(P0))
    shard.finish()
    shard.initialize("y")
    shard.pass_time(1800)
    shard.initialize("y")
    shard.pass_time(1800)
    assert list(shard.machine.transactions) == ["y"]
    assert shard.initialize().producer_id != 3


def test_a_longer_expiration_counts_for_those_who_are_silent_already(shard: TransactionShard) -> None:
    shard.initialize()
    shard.cluster.broker = shard.cluster.broker.override({"transactional.id.expiration.ms": "7200000"})
    shard.pass_time(3600)
    assert "x" in shard.machine.transactions
    shard.pass_time(3600)
    assert "x" not in shard.machine.transactions


def test_an_open_transaction_does_not_expire(shard: TransactionShard) -> None:
    shard.cluster.broker = shard.cluster.broker.override({"transactional.id.expiration.ms": "1000"})
    shard.begun(P0)
    shard.pass_time(30)
    assert shard.of().state is S.ONGOING


# A new owner


def test_a_new_owner_ends_what_was_decided_and_nothing_else(shard: TransactionShard) -> None:
    for name in ("a", "b", "c"):
        producer = shard.initialize(name)
        shard.add(producer, P0, name=name)
        if name != "c":
            shard.end(producer, name=name)
    shard.finish("b")
    shard.told.clear()
    shard.reload()
    assert shard.machine.next_deadline() == 0.0
    shard.pass_time(0)
    assert shard.told == ["a"]
    assert shard.machine.next_deadline() != 0.0
    assert shard.finish("a").partitions == {P0}


def test_the_log_stays_short(shard: TransactionShard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_keys, "SLACK", 4)
    quiet = shard.initialize("quiet")
    for _ in range(50):
        shard.end(shard.begun(P0))
        shard.finish()
        shard.ask(NewProducer(), Producer)
    assert len(shard.log) + 1 - shard.machine.trim_before() < 20
    shard.reload()
    assert shard.initialize("quiet") == Producer(quiet.producer_id, 1)


# What is shown


def test_transactions_are_described(shard: TransactionShard) -> None:
    producer = shard.begun(P1, P0)
    described = shard.ask(Describe("x"), Transaction)
    assert (described.state.value, described.producer_id) == ("Ongoing", producer.producer_id)
    assert shard.refuses(Describe("y")) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_transactions_are_listed(shard: TransactionShard) -> None:
    shard.begun(P0)
    shard.now += 10
    shard.initialize("y")
    other = shard.initialize("z")
    shard.add(other, P0, name="z")

    def found(command: ListTransactions) -> list[str]:
        return sorted(shard.ask(command, dict))

    assert found(ListTransactions()) == ["x", "y", "z"]
    assert found(ListTransactions(states=frozenset({S.EMPTY}))) == ["y"]
    assert found(ListTransactions(producer_ids=frozenset({other.producer_id, 99}))) == ["z"]
    assert found(ListTransactions(longer_than_ms=9_999)) == ["x"]
    assert found(ListTransactions(longer_than_ms=0)) == ["x"]


def test_the_table_is_all_there_is() -> None:
    assert MOVES.keys() == set(S)
    with pytest.raises(IllegalTransitionError, match="EMPTY to PREPARE_COMMIT"):
        Transaction(1, 0, 1).moved(S.PREPARE_COMMIT, 0)
