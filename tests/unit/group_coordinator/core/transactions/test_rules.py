"""The effect of each request on a transaction, as pure functions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.transactions import rules
from sharebroker_server.group_coordinator.core.transactions.commands import (
    Aborting,
    AddPartitions,
    End,
    InitProducerId,
    ProducerIdAndEpoch,
    ReadStaged,
    Stage,
    VerifyPartitions,
)
from sharebroker_server.group_coordinator.core.transactions.model import (
    LAST_EPOCH,
    NONE,
    Staged,
    Transaction,
    TransactionState,
    Verdict,
)
from tests.unit.group_coordinator.transaction_harness import TransactionHarness

S = TransactionState
P0, P1 = TopicIdPartition("t", 0), TopicIdPartition("t", 1)
IDLE = Transaction(70, 4, 1000)
OPEN = Transaction(70, 4, 1000, S.ONGOING, frozenset({P0}), start_ms=1)
LAST = replace(OPEN, producer_epoch=LAST_EPOCH)
MINE = ProducerIdAndEpoch(70, 4)


def new_id() -> int:
    return 71


AT_5 = rules.Step(new_id, 5)


def code(caught: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return caught.value.code


def ending(transaction: Transaction = OPEN, *, commit: bool = True, version: int = 2) -> Transaction:
    command = End("x", rules.producer_of(transaction), commit, version)
    decided, _ = rules.end(transaction, command, AT_5)
    assert decided is not None
    return decided


def test_new_transactional_id_gets_a_new_producer() -> None:
    assert rules.initialize(None, InitProducerId("x", 1000), AT_5) == (
        Transaction(71, 0, 1000, updated_ms=5),
        ProducerIdAndEpoch(71, 0),
    )


def test_known_transactional_id_gets_the_next_epoch() -> None:
    renewed, reply = rules.initialize(IDLE, InitProducerId("x", 2000), AT_5)
    assert reply == ProducerIdAndEpoch(70, 5)
    assert (renewed.timeout_ms, renewed.last_producer_epoch) == (2000, NONE)


def test_open_transaction_is_aborted_and_its_producer_fenced() -> None:
    fenced, reply = rules.initialize(OPEN, InitProducerId("x", 1000), AT_5)
    assert reply == Aborting()
    assert (fenced.state, fenced.producer_epoch) == (S.PREPARE_ABORT, 5)


@pytest.mark.parametrize(
    ("transaction", "expected", "refusal"),
    [
        (ending(), None, ErrorCode.CONCURRENT_TRANSACTIONS),
        (IDLE, ProducerIdAndEpoch(69, 4), ErrorCode.PRODUCER_FENCED),
        (IDLE, ProducerIdAndEpoch(70, 2), ErrorCode.PRODUCER_FENCED),
    ],
)
def test_invalid_initialisation_is_rejected(
    transaction: Transaction, expected: ProducerIdAndEpoch | None, refusal: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as caught:
        rules.initialize(transaction, InitProducerId("x", 1000, expected), AT_5)
    assert code(caught) is refusal


def test_repeated_initialisation_raises_the_epoch_once() -> None:
    command = InitProducerId("x", 1000, MINE)
    renewed, first = rules.initialize(IDLE, command, AT_5)
    assert rules.initialize(renewed, command, rules.Step(new_id, 6))[1] == first == ProducerIdAndEpoch(70, 5)


def test_exhausted_epochs_need_a_new_producer_id() -> None:
    exhausted = replace(IDLE, producer_epoch=LAST_EPOCH)
    renewed, reply = rules.initialize(exhausted, InitProducerId("x", 1000), AT_5)
    assert (reply, renewed.previous_producer_id) == (ProducerIdAndEpoch(71, 0), 70)


def test_first_partition_begins_the_transaction() -> None:
    begun = rules.add_partitions(IDLE, AddPartitions("x", MINE, frozenset({P0}), 2), AT_5)[0]
    assert begun is not None
    assert (begun.state, begun.partitions, begun.start_ms) == (S.ONGOING, frozenset({P0}), 5)


def test_further_partition_keeps_the_start_of_the_transaction() -> None:
    longer = rules.add_partitions(OPEN, AddPartitions("x", MINE, frozenset({P1}), 2), AT_5)[0]
    assert longer is not None
    assert (longer.partitions, longer.start_ms, longer.updated_ms) == (frozenset({P0, P1}), 1, 5)


def test_known_partitions_change_nothing() -> None:
    assert rules.add_partitions(OPEN, AddPartitions("x", MINE, frozenset({P0}), 2), AT_5)[0] is None


def test_only_partitions_of_an_open_transaction_are_verified() -> None:
    command = VerifyPartitions("x", MINE, frozenset({P0, P1}))
    assert rules.verify_partitions(OPEN, command, AT_5)[1] == {P0}
    assert rules.verify_partitions(replace(OPEN, state=S.COMPLETE_COMMIT), command, AT_5)[1] == frozenset()


@pytest.mark.parametrize(
    ("transaction", "producer", "refusal"),
    [
        (None, MINE, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (OPEN, ProducerIdAndEpoch(69, 4), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (OPEN, ProducerIdAndEpoch(70, 3), ErrorCode.PRODUCER_FENCED),
        (OPEN, ProducerIdAndEpoch(70, 5), ErrorCode.PRODUCER_FENCED),
        (ending(), ProducerIdAndEpoch(70, 5), ErrorCode.CONCURRENT_TRANSACTIONS),
        (ending(LAST), ProducerIdAndEpoch(71, 0), ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_only_the_current_producer_continues(
    transaction: Transaction | None, producer: ProducerIdAndEpoch, refusal: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as caught:
        rules.current(transaction, "x", producer)
    assert code(caught) is refusal


@pytest.mark.parametrize(("commit", "state"), [(True, S.PREPARE_COMMIT), (False, S.PREPARE_ABORT)])
@pytest.mark.parametrize(("version", "epoch"), [(0, 4), (1, 4), (2, 5)])
def test_end_decides_and_renews_the_epoch_from_version_2(
    commit: bool, state: S, version: int, epoch: int
) -> None:
    decided = ending(commit=commit, version=version)
    assert (decided.state, decided.producer_epoch, decided.partitions) == (state, epoch, frozenset({P0}))


@pytest.mark.parametrize(("commit", "state"), [(True, S.COMPLETE_COMMIT), (False, S.COMPLETE_ABORT)])
def test_completed_transaction_has_no_partitions(commit: bool, state: S) -> None:
    completed = rules.ended(ending(commit=commit), 6)
    assert (completed.state, completed.partitions, completed.updated_ms) == (state, frozenset(), 6)
    assert rules.producer_of(completed) == ProducerIdAndEpoch(70, 5)


def test_end_with_the_last_epoch_leads_to_the_next_producer_id() -> None:
    completed = rules.ended(ending(LAST), 6)
    assert rules.producer_of(completed) == ProducerIdAndEpoch(71, 0)
    assert (completed.previous_producer_id, completed.next_producer_id) == (70, NONE)


@pytest.mark.parametrize(
    ("transaction", "command", "refusal"),
    [
        (None, End("x", MINE, True, 2), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (IDLE, End("x", MINE, True, 2), ErrorCode.INVALID_TXN_STATE),
        (ending(), End("x", MINE, True, 2), ErrorCode.CONCURRENT_TRANSACTIONS),
        (ending(), End("x", MINE, False, 2), ErrorCode.INVALID_TXN_STATE),
        (rules.ended(ending(), 6), End("x", MINE, False, 2), ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_invalid_end_is_rejected(transaction: Transaction | None, command: End, refusal: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        rules.end(transaction, command, rules.Step(new_id, 7))
    assert code(caught) is refusal


def test_repeated_end_changes_nothing() -> None:
    completed = rules.ended(ending(), 6)
    assert rules.end(completed, End("x", MINE, True, 2), rules.Step(new_id, 7)) == (
        None,
        ProducerIdAndEpoch(70, 5),
    )


def test_abort_without_partitions_needs_no_markers() -> None:
    aborted, producer = rules.end(IDLE, End("x", MINE, False, 2), rules.Step(new_id, 7))
    assert aborted is not None
    assert (aborted.state, producer) == (S.COMPLETE_ABORT, ProducerIdAndEpoch(70, 5))


ACCEPT, RELEASE, REJECT = 1, 2, 3


@pytest.fixture
def shard() -> TransactionHarness:
    return TransactionHarness()


def verdict(first: int, last: int, kind: int = REJECT, partition: int = 0) -> Verdict:
    return Verdict("t", partition, first, last, kind)


def stage(
    shard: TransactionHarness, producer: ProducerIdAndEpoch, *verdicts: Verdict, batch: str = "1"
) -> None:
    shard.request(Stage("x", producer, batch, verdicts), type(None))


def staged(
    shard: TransactionHarness, producer: ProducerIdAndEpoch, batch: str = "1", *, reconciled: bool = False
) -> Staged:
    return shard.request(ReadStaged("x", producer, batch, reconciled), Staged)


def test_staged_verdicts_survive_a_crash(shard: TransactionHarness) -> None:
    producer = shard.initialize()
    stage(shard, producer, verdict(5, 6), verdict(0, 1))
    shard.reload()
    assert staged(shard, producer) == Staged("1", 0, (verdict(0, 1), verdict(5, 6)))
    assert staged(shard, producer, "2").verdicts == ()


def test_later_verdicts_of_one_epoch_add_and_override(shard: TransactionHarness) -> None:
    producer = shard.initialize()
    stage(shard, producer, verdict(0, 9), verdict(0, 3, partition=1))
    stage(shard, producer, verdict(4, 5, RELEASE))
    stage(shard, producer, verdict(4, 5, RELEASE))
    assert len(shard.log) == 4  # ids, session, two changes
    assert staged(shard, producer).verdicts == (
        verdict(0, 3), verdict(4, 5, RELEASE), verdict(6, 9), verdict(0, 3, partition=1),
    )  # fmt: skip


def test_newer_epoch_drops_earlier_verdicts_of_the_batch(shard: TransactionHarness) -> None:
    first = shard.initialize()
    stage(shard, first, verdict(0, 9))
    second = shard.initialize()
    assert staged(shard, second).verdicts == (verdict(0, 9),)
    stage(shard, second, verdict(20, 21))
    assert staged(shard, second).verdicts == (verdict(20, 21),)
    assert shard.refuses(Stage("x", first, "1", ())) is ErrorCode.PRODUCER_FENCED
    assert shard.refuses(ReadStaged("x", first, "1")) is ErrorCode.PRODUCER_FENCED


def test_another_batch_replaces_the_staged_one(shard: TransactionHarness) -> None:
    producer = shard.initialize()
    stage(shard, producer, verdict(0, 9))
    stage(shard, producer, verdict(10, 11), batch="2")
    assert staged(shard, producer).verdicts == ()
    assert staged(shard, producer, "2").verdicts == (verdict(10, 11),)


def test_reconciled_verdicts_are_kept_and_cannot_change(shard: TransactionHarness) -> None:
    producer = shard.initialize()
    stage(shard, producer, verdict(0, 9, RELEASE))
    assert not staged(shard, producer, reconciled=True).reconciled
    entries = len(shard.log)
    assert staged(shard, producer, reconciled=True).reconciled
    assert len(shard.log) == entries
    assert not staged(shard, producer, "2", reconciled=True).reconciled
    assert shard.refuses(Stage("x", producer, "1", (verdict(0, 1),))) is ErrorCode.INVALID_REQUEST
    shard.reload()
    assert staged(shard, shard.initialize()).reconciled


def test_staged_verdicts_are_limited(shard: TransactionHarness) -> None:
    producer = shard.initialize()
    most = [verdict(2 * n, 2 * n) for n in range(rules.MOST_STAGED)]
    stage(shard, producer, *most)
    stage(shard, producer, verdict(0, 0, ACCEPT))
    assert shard.refuses(Stage("x", producer, "1", (verdict(10**6, 10**6),))) is ErrorCode.INVALID_REQUEST


def test_unknown_session_stages_nothing(shard: TransactionHarness) -> None:
    assert (
        shard.refuses(Stage("x", ProducerIdAndEpoch(1, 0), "1", ())) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )
