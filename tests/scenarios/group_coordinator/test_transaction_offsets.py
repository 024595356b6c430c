"""Offsets in transactions through the RPCs: confirmed first, pending until the end, whoever has the shard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.catalog.internal_topics import OFFSETS_TOPIC_ID
from sharebroker_server.cluster.transaction_check import Claim
from sharebroker_server.coordinator_runtime.hashing import shard_of
from sharebroker_server.leases import names
from sharebroker_server.testkit.waiting import eventually
from tests.scenarios.group_coordinator.process import CONTEXT, Process, World

SHARD = shard_of("g", 50)
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.close()


@pytest.fixture
async def process(world: World) -> Process:
    return await world.start(1)


async def commit(process: Process, offset: int, *, version: int = 2, epoch: int = 3) -> ErrorCode:
    request = pb.TxnOffsetCommitRequest(
        transactional_id="x", producer_id=7, producer_epoch=epoch, transaction_version=version
    )
    request.commit.group_id, request.commit.generation_id = "g", -1
    request.commit.partitions.add(topic_id="t", partition=4, committed_offset=offset)
    answer = await process.until(lambda: process.groups.TxnOffsetCommit(request, CONTEXT))
    (partition,) = answer.partitions
    return ErrorCode(partition.error_code)


async def end(process: Process, *, commit: bool = True, epoch: int = 4, coordinator: int = 7) -> None:
    request = pb.CompleteTransactionRequest(
        shard=SHARD,
        producer_id=7,
        producer_epoch=epoch,
        transaction_result=commit,
        coordinator_epoch=coordinator,
    )
    await process.until(lambda: process.groups.CompleteTransaction(request, CONTEXT))


async def fetch(process: Process, *, require_stable: bool = True) -> list[tuple[int, ErrorCode]]:
    request = pb.OffsetFetchRequest(group_id="g", require_stable=require_stable)
    answer = await process.until(lambda: process.groups.OffsetFetch(request, CONTEXT))
    return [(one.committed_offset, ErrorCode(one.error_code)) for one in answer.partitions]


@pytest.mark.parametrize("version", [0, 2])
async def test_a_transaction_is_confirmed_once(world: World, process: Process, version: int) -> None:
    assert await commit(process, 5, version=version) is ErrorCode.NONE
    assert await commit(process, 6, version=version) is ErrorCode.NONE
    partition = names.partition(OFFSETS_TOPIC_ID, SHARD)
    assert world.transactions.asked == [(Claim("x", adds=version == 2), 7, 3, partition)]
    assert await fetch(process) == [(-1, UNSTABLE)]
    assert await fetch(process, require_stable=False) == []
    await end(process)
    assert await fetch(process) == [(6, ErrorCode.NONE)]


async def test_the_next_coordinator_ends_it(world: World, process: Process) -> None:
    await commit(process, 5)
    await process.stop()
    world.processes.remove(process)
    heir = await world.start(2)
    assert await fetch(heir) == [(-1, UNSTABLE)]
    await end(heir, commit=False)
    await end(heir, commit=True)  # comes again, and changes nothing
    assert await fetch(heir) == []


async def test_ends_of_the_past_are_refused(process: Process) -> None:
    await commit(process, 5)
    with pytest.raises(KafkaError) as older:
        await end(process, epoch=2)
    assert older.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(KafkaError) as fenced:
        await end(process, coordinator=6)
    assert fenced.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await fetch(process) == [(-1, UNSTABLE)]


async def test_a_transaction_that_ended_while_it_was_confirmed_is_asked_for_again(
    world: World, process: Process
) -> None:
    world.transactions.open.clear()
    world.transactions.outcomes = [7, KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)]
    late = asyncio.create_task(commit(process, 5))
    await eventually(lambda: world.transactions.asked)
    await end(process)
    world.transactions.open.set()
    with pytest.raises(KafkaError) as fenced:
        await late
    assert fenced.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert len(world.transactions.asked) == 2
    assert await fetch(process) == [], "nobody would ever end it"


async def test_several_may_ask_for_the_same_transaction(world: World, process: Process) -> None:
    world.transactions.open.clear()
    both = [asyncio.create_task(commit(process, offset)) for offset in (5, 6)]
    await eventually(lambda: len(world.transactions.asked) == 2)
    world.transactions.open.set()
    assert await asyncio.gather(*both) == [ErrorCode.NONE] * 2
    await end(process)
    assert await fetch(process) == [(6, ErrorCode.NONE)]


async def test_ends_that_keep_coming_are_not_outwaited(world: World, process: Process) -> None:
    confirm = world.transactions.confirm

    async def confirm_and_end(claim: Claim, producer_id: int, producer_epoch: int, partition: str) -> int:
        await end(process)
        return await confirm(claim, producer_id, producer_epoch, partition)

    world.transactions.confirm = confirm_and_end  # type: ignore[method-assign]  # for this test
    with pytest.raises(KafkaError) as refused:
        await commit(process, 5)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    assert await fetch(process) == []


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
async def test_what_is_not_confirmed_is_refused(
    world: World, process: Process, said: ErrorCode, seen: ErrorCode
) -> None:
    world.transactions.outcomes = [KafkaError(said)]
    with pytest.raises(KafkaError) as refused:
        await commit(process, 5)
    assert refused.value.code is seen
    assert await fetch(process) == []


async def test_a_coordinator_that_cannot_be_asked_is_asked_later(world: World, process: Process) -> None:
    world.transactions.outcomes = [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)]
    assert await commit(process, 5) is ErrorCode.NONE  # `until` tries again after COORDINATOR_NOT_AVAILABLE
    assert len(world.transactions.asked) == 2
