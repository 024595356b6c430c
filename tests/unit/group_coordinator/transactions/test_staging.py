"""Verdicts that wait for their batch: who may stage them, what replaces what, and what is remembered."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.group_coordinator.core.transactions import staging
from sharebroker_server.group_coordinator.core.transactions.commands import AskStaged, Producer, Stage
from sharebroker_server.group_coordinator.core.transactions.model import Staged, Verdict
from tests.unit.group_coordinator.transactions.shard import TransactionShard

ACCEPT, RELEASE, REJECT = 1, 2, 3


@pytest.fixture
def shard() -> TransactionShard:
    return TransactionShard()


def said(first: int, last: int, kind: int = REJECT, partition: int = 0) -> Verdict:
    return Verdict("t", partition, first, last, kind)


def stage(shard: TransactionShard, producer: Producer, *verdicts: Verdict, batch: str = "1") -> None:
    shard.ask(Stage("x", producer, batch, verdicts), type(None))


def staged(shard: TransactionShard, producer: Producer, batch: str = "1", *, settle: bool = False) -> Staged:
    return shard.ask(AskStaged("x", producer, batch, settle), Staged)


def test_what_is_staged_is_there_after_a_crash(shard: TransactionShard) -> None:
    producer = shard.initialize()
    stage(shard, producer, said(5, 6), said(0, 1))
    shard.reload()
    assert staged(shard, producer) == Staged("1", 0, (said(0, 1), said(5, 6)))
    assert staged(shard, producer, "2").verdicts == ()


def test_one_epoch_adds_and_says_otherwise(shard: TransactionShard) -> None:
    producer = shard.initialize()
    stage(shard, producer, said(0, 9), said(0, 3, partition=1))
    stage(shard, producer, said(4, 5, RELEASE))
    stage(shard, producer, said(4, 5, RELEASE))
    assert len(shard.log) == 4  # ids, session, two changes
    assert staged(shard, producer).verdicts == (
        said(0, 3), said(4, 5, RELEASE), said(6, 9), said(0, 3, partition=1),
    )  # fmt: skip


def test_a_later_run_of_the_batch_begins_anew(shard: TransactionShard) -> None:
    first = shard.initialize()
    stage(shard, first, said(0, 9))
    second = shard.initialize()
    assert staged(shard, second).verdicts == (said(0, 9),)
    stage(shard, second, said(20, 21))
    assert staged(shard, second).verdicts == (said(20, 21),)
    assert shard.refuses(Stage("x", first, "1", ())) is ErrorCode.PRODUCER_FENCED
    assert shard.refuses(AskStaged("x", first, "1")) is ErrorCode.PRODUCER_FENCED


def test_another_batch_takes_the_place(shard: TransactionShard) -> None:
    producer = shard.initialize()
    stage(shard, producer, said(0, 9))
    stage(shard, producer, said(10, 11), batch="2")
    assert staged(shard, producer).verdicts == ()
    assert staged(shard, producer, "2").verdicts == (said(10, 11),)


def test_what_was_carried_out_is_remembered_and_stands(shard: TransactionShard) -> None:
    producer = shard.initialize()
    stage(shard, producer, said(0, 9, RELEASE))
    assert not staged(shard, producer, settle=True).settled
    entries = len(shard.log)
    assert staged(shard, producer, settle=True).settled
    assert len(shard.log) == entries
    assert not staged(shard, producer, "2", settle=True).settled
    assert shard.refuses(Stage("x", producer, "1", (said(0, 1),))) is ErrorCode.INVALID_REQUEST
    shard.reload()
    assert staged(shard, shard.initialize()).settled


def test_there_is_a_bound(shard: TransactionShard) -> None:
    producer = shard.initialize()
    most = [said(2 * n, 2 * n) for n in range(staging.MOST)]
    stage(shard, producer, *most)
    stage(shard, producer, said(0, 0, ACCEPT))
    assert shard.refuses(Stage("x", producer, "1", (said(10**6, 10**6),))) is ErrorCode.INVALID_REQUEST


def test_a_session_nobody_opened_stages_nothing(shard: TransactionShard) -> None:
    assert shard.refuses(Stage("x", Producer(1, 0), "1", ())) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
