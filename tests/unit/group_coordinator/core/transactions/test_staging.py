"""Verdicts that wait for their batch: who may stage them, what replaces what, and what is remembered."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.group_coordinator.core.transactions import staging
from sharebroker_server.group_coordinator.core.transactions.commands import Producer, ReadStaged, Stage
from sharebroker_server.group_coordinator.core.transactions.model import Staged, Verdict
from tests.unit.group_coordinator.transaction_harness import TransactionHarness

ACCEPT, RELEASE, REJECT = 1, 2, 3


@pytest.fixture
def shard() -> TransactionHarness:
    return TransactionHarness()


def said(first: int, last: int, kind: int = REJECT, partition: int = 0) -> Verdict:
    return Verdict("t", partition, first, last, kind)


def stage(shard: TransactionHarness, producer: Producer, *verdicts: Verdict, batch: str = "1") -> None:
    shard.request(Stage("x", producer, batch, verdicts), type(None))


def staged(
    shard: TransactionHarness, producer: Producer, batch: str = "1", *, reconciled: bool = False
) -> Staged:
    return shard.request(ReadStaged("x", producer, batch, reconciled), Staged)


def test_what_is_staged_is_there_after_a_crash(shard: TransactionHarness) -> None:
    producer = shard.initialize()
    stage(shard, producer, said(5, 6), said(0, 1))
    shard.reload()
    assert staged(shard, producer) == Staged("1", 0, (said(0, 1), said(5, 6)))
    assert staged(shard, producer, "2").verdicts == ()


def test_later_verdicts_of_one_epoch_add_and_override(shard: TransactionHarness) -> None:
    producer = shard.initialize()
    stage(shard, producer, said(0, 9), said(0, 3, partition=1))
    stage(shard, producer, said(4, 5, RELEASE))
    stage(shard, producer, said(4, 5, RELEASE))
    assert len(shard.log) == 4  # ids, session, two changes
    assert staged(shard, producer).verdicts == (
        said(0, 3), said(4, 5, RELEASE), said(6, 9), said(0, 3, partition=1),
    )  # fmt: skip


def test_newer_epoch_drops_earlier_verdicts_of_the_batch(shard: TransactionHarness) -> None:
    first = shard.initialize()
    stage(shard, first, said(0, 9))
    second = shard.initialize()
    assert staged(shard, second).verdicts == (said(0, 9),)
    stage(shard, second, said(20, 21))
    assert staged(shard, second).verdicts == (said(20, 21),)
    assert shard.refuses(Stage("x", first, "1", ())) is ErrorCode.PRODUCER_FENCED
    assert shard.refuses(ReadStaged("x", first, "1")) is ErrorCode.PRODUCER_FENCED


def test_another_batch_replaces_the_staged_one(shard: TransactionHarness) -> None:
    producer = shard.initialize()
    stage(shard, producer, said(0, 9))
    stage(shard, producer, said(10, 11), batch="2")
    assert staged(shard, producer).verdicts == ()
    assert staged(shard, producer, "2").verdicts == (said(10, 11),)


def test_reconciled_verdicts_are_kept_and_cannot_change(shard: TransactionHarness) -> None:
    producer = shard.initialize()
    stage(shard, producer, said(0, 9, RELEASE))
    assert not staged(shard, producer, reconciled=True).reconciled
    entries = len(shard.log)
    assert staged(shard, producer, reconciled=True).reconciled
    assert len(shard.log) == entries
    assert not staged(shard, producer, "2", reconciled=True).reconciled
    assert shard.refuses(Stage("x", producer, "1", (said(0, 1),))) is ErrorCode.INVALID_REQUEST
    shard.reload()
    assert staged(shard, shard.initialize()).reconciled


def test_staged_verdicts_are_limited(shard: TransactionHarness) -> None:
    producer = shard.initialize()
    most = [said(2 * n, 2 * n) for n in range(staging.MOST)]
    stage(shard, producer, *most)
    stage(shard, producer, said(0, 0, ACCEPT))
    assert shard.refuses(Stage("x", producer, "1", (said(10**6, 10**6),))) is ErrorCode.INVALID_REQUEST


def test_unknown_session_stages_nothing(shard: TransactionHarness) -> None:
    assert shard.refuses(Stage("x", Producer(1, 0), "1", ())) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
