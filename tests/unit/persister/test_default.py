"""The persister coalesces writes, retries and stops in time; a function fakes the coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateBatch, StateWrite
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.leases.names import Shard
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.persister.default import DefaultPersister, PersisterSettings
from sharebroker_server.persister.port import (
    Begun,
    Changes,
    Persister,
    SharePartitionState,
    StateSummary,
)
from sharebroker_server.routing.router import Peer
from tests.testkit.waiting import eventually

KEY = SharePartitionKey("g", "T" * 22, 3)
QUICK = PersisterSettings(call_timeout=0.5, request_timeout=0.2, first_backoff=0.001, longest_backoff=0.004)
CHANGE = StateWrite(1, 2, 10, 4, (StateBatch(12, 15, 2, 1),))


class Coordinators:
    """One coordinator: `answer(rpc, request)` is its behaviour, `requests` lists its calls."""

    def __init__(self, answer: Callable[[str, Any], Any]) -> None:
        self.answer = answer
        self.requests: list[tuple[str, Any]] = []
        self.forgotten = 0
        self.local: Local | None = None
        self.busy = asyncio.Event()
        self.busy.set()

    def share_shard(self, group_id: str, topic_id: str, partition: int) -> int:
        return partition % 2

    async def share_coordinator(self, shard: Shard) -> Peer[Any]:
        return Peer(ClusterMember("1/1", 1, frozenset(), "a:1"), self)

    def local_states(self, shard: Shard) -> Local | None:
        return self.local

    def forget_share_coordinator(self, shard: Shard) -> None:
        self.forgotten += 1

    def __getattr__(self, rpc: str) -> Any:
        async def call(request: Any, *, timeout: float) -> Any:
            self.requests.append((rpc, request))
            await self.busy.wait()
            return self.answer(rpc, request)

        return call


def results(request: Any, **fields: Any) -> Any:
    """Success for all partitions of a request, in the shape of its response."""
    response = getattr(pb, type(request).__name__.replace("Request", "Response"))()
    for topic in request.topics:
        result = response.results.add(topic_id=topic.topic_id)
        for partition in topic.partitions:
            result.partitions.add(partition=getattr(partition, "partition", partition), **fields)
    return response


async def refusal(call: Any) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        await call
    return caught.value


async def test_each_call_sends_its_fields() -> None:
    coordinators = Coordinators(lambda _, request: results(request))
    persister: Persister = DefaultPersister(coordinators, QUICK)
    await persister.initialize(KEY, 7, -1)
    await persister.write(KEY, CHANGE)
    await persister.delete(KEY, 8)
    names = [rpc for rpc, _ in coordinators.requests]
    assert names == ["InitializeShareGroupState", "WriteShareGroupState", "DeleteShareGroupState"]
    [initialize, write, delete] = [request.topics[0].partitions[0] for _, request in coordinators.requests]
    assert (initialize.partition, initialize.state_epoch, initialize.start_offset) == (3, 7, -1)
    assert (write.state_epoch, write.leader_epoch, write.start_offset) == (1, 2, 10)
    assert coordinators.requests[-1][1].state_epoch == 8
    assert write.delivery_complete_count == 4
    batch = write.state_batches[0]
    assert (batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count) == (
        12,
        15,
        2,
        1,
    )
    assert delete == 3


class Local:
    """The share coordinator of this process: raises `refusals` first, then accepts reads and writes."""

    def __init__(self, *refusals: ErrorCode) -> None:
        self.refusals = list(refusals)
        self.written: list[tuple[SharePartitionKey, StateWrite]] = []

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> SharePartitionState:
        if self.refusals:
            raise KafkaError(self.refusals.pop(0))
        return SharePartitionState(leader_epoch, 10, CHANGE.batches)

    def write(self, key: SharePartitionKey, change: StateWrite) -> asyncio.Future[None]:
        if self.refusals:
            raise KafkaError(self.refusals.pop(0))
        self.written.append((key, change))
        durable = asyncio.get_running_loop().create_future()
        durable.set_result(None)
        return durable

    def write_all(self, shard: Shard, changes: Changes) -> Begun:
        assert shard == KEY.partition % 2
        begun = [self.write(*one) for one in changes]
        return asyncio.gather(*begun)


async def test_local_writes_need_no_request() -> None:
    coordinators, local = Coordinators(lambda _, request: results(request)), Local()
    persister = DefaultPersister(coordinators, QUICK)
    coordinators.local = local
    await persister.write(KEY, CHANGE)
    assert (local.written, coordinators.requests) == ([(KEY, CHANGE)], [])
    await persister.initialize(KEY, 7, -1)
    assert [rpc for rpc, _ in coordinators.requests] == ["InitializeShareGroupState"]


async def test_local_reads_need_no_request_and_are_retried() -> None:
    coordinators = Coordinators(lambda _, request: results(request))
    coordinators.local = Local(ErrorCode.NOT_COORDINATOR)
    persister = DefaultPersister(coordinators, QUICK)
    assert await persister.read(KEY, 7) == SharePartitionState(7, 10, CHANGE.batches)
    assert (coordinators.requests, coordinators.forgotten) == ([], 1)
    coordinators.local.refusals.append(ErrorCode.FENCED_LEADER_EPOCH)
    assert (await refusal(persister.read(KEY, 7))).code is ErrorCode.FENCED_LEADER_EPOCH


async def test_remote_writes_are_requests() -> None:
    coordinators, local = Coordinators(lambda _, request: results(request)), Local()
    persister = DefaultPersister(coordinators, QUICK)
    await persister.write(KEY, CHANGE)
    assert (local.written, [rpc for rpc, _ in coordinators.requests]) == ([], ["WriteShareGroupState"])


async def test_local_writes_are_retried() -> None:
    coordinators = Coordinators(lambda _, request: results(request))
    local = Local(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
    persister = DefaultPersister(coordinators, QUICK)
    coordinators.local = local
    await persister.write(KEY, CHANGE)
    assert (len(local.written), coordinators.forgotten) == (1, 2)
    local.refusals.append(ErrorCode.FENCED_STATE_EPOCH)
    assert (await refusal(persister.write(KEY, CHANGE))).code is ErrorCode.FENCED_STATE_EPOCH


async def test_local_write_starts_at_once() -> None:
    coordinators, local = Coordinators(lambda _, request: results(request)), Local()
    persister = DefaultPersister(coordinators, QUICK)
    assert persister.shard(KEY) == 1
    assert persister.begin(1, [(KEY, CHANGE)]) is None  # no local coordinator is registered
    assert persister.begin(1, [(KEY, CHANGE)]) is None  # the owner is another process, or not known
    coordinators.local = local
    local.refusals.append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert persister.begin(1, [(KEY, CHANGE)]) is None
    assert local.written == []
    begun = persister.begin(1, [(KEY, CHANGE)])
    assert begun is not None
    await begun
    assert local.written == [(KEY, CHANGE)]


async def test_read_returns_the_stored_state() -> None:
    batches = [pb.StateBatch(first_offset=5, last_offset=6, delivery_state=0, delivery_count=2)]

    def answer(rpc: str, request: Any) -> Any:
        if rpc == "ReadShareGroupState":
            return results(request, state_epoch=3, start_offset=5, state_batches=batches)
        return results(request, state_epoch=3, leader_epoch=9, start_offset=5, delivery_complete_count=1)

    persister = DefaultPersister(Coordinators(answer), QUICK)
    assert await persister.read(KEY, 9) == SharePartitionState(3, 5, (StateBatch(5, 6, 0, 2),))
    assert await persister.read_summary(KEY) == StateSummary(3, 9, 5, 1)


async def test_calls_during_a_request_are_coalesced_into_the_next() -> None:
    coordinators = Coordinators(lambda _, request: results(request))
    persister = DefaultPersister(coordinators, QUICK)
    coordinators.busy.clear()
    first = asyncio.create_task(persister.write(KEY, CHANGE))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    others = [asyncio.create_task(persister.write(KEY._replace(partition=n), CHANGE)) for n in range(4, 9)]
    await asyncio.sleep(0)
    coordinators.busy.set()
    await asyncio.gather(first, *others)
    sizes = [sum(len(topic.partitions) for topic in request.topics) for _, request in coordinators.requests]
    assert sizes == [1, 5]


async def test_groups_do_not_share_a_request() -> None:
    coordinators = Coordinators(lambda _, request: results(request))
    persister = DefaultPersister(coordinators, QUICK)
    await asyncio.gather(*(persister.write(KEY._replace(group_id=name), CHANGE) for name in "ab"))
    assert sorted(request.group_id for _, request in coordinators.requests) == ["a", "b"]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
async def test_retriable_error_is_retried_at_the_current_owner(code: ErrorCode) -> None:
    refusals = iter([int(code), int(code), 0])
    coordinators = Coordinators(lambda _, request: results(request, error_code=next(refusals)))
    await DefaultPersister(coordinators, QUICK).write(KEY, CHANGE)
    assert coordinators.forgotten == 2


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_STATE_EPOCH, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_REQUEST]
)
async def test_fatal_error_is_not_retried(code: ErrorCode) -> None:
    coordinators = Coordinators(lambda _, request: results(request, error_code=int(code), error_message="no"))
    error = await refusal(DefaultPersister(coordinators, QUICK).write(KEY, CHANGE))
    assert (error.code, error.message) == (code, "no")
    assert len(coordinators.requests) == 1


async def test_the_last_error_is_raised_after_the_call_timeout() -> None:
    lost = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "away")

    def answer(rpc: str, request: Any) -> Any:
        raise lost

    coordinators = Coordinators(answer)
    error = await refusal(DefaultPersister(coordinators, QUICK).write(KEY, CHANGE))
    assert error.code is lost.code
    assert len(coordinators.requests) > 2


async def test_rejected_partition_does_not_affect_others() -> None:
    def answer(rpc: str, request: Any) -> Any:
        response = results(request)
        for topic in response.results:
            for partition in topic.partitions:
                if partition.partition == 3:
                    partition.error_code = int(ErrorCode.FENCED_STATE_EPOCH)
        return response

    persister = DefaultPersister(Coordinators(answer), QUICK)
    other = KEY._replace(partition=5)
    refused, fine = await asyncio.gather(
        persister.write(KEY, CHANGE), persister.write(other, CHANGE), return_exceptions=True
    )
    assert isinstance(refused, KafkaError)
    assert fine is None


async def test_partition_missing_from_the_response_is_an_error() -> None:
    coordinators = Coordinators(lambda *_: pb.WriteShareGroupStateResponse())
    error = await refusal(DefaultPersister(coordinators, QUICK).write(KEY, CHANGE))
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR


async def test_second_write_of_a_partition_follows_the_first() -> None:
    coordinators = Coordinators(lambda _, request: results(request))
    persister = DefaultPersister(coordinators, QUICK)
    await asyncio.gather(persister.write(KEY, CHANGE), persister.write(KEY, CHANGE._replace(start_offset=11)))
    starts = [request.topics[0].partitions[0].start_offset for _, request in coordinators.requests]
    assert starts == [10, 11]


async def test_cancelled_caller_does_not_affect_others() -> None:
    coordinators = Coordinators(lambda _, request: results(request))
    persister = DefaultPersister(coordinators, QUICK)
    impatient = asyncio.create_task(persister.write(KEY, CHANGE))
    patient = asyncio.create_task(persister.write(KEY._replace(partition=5), CHANGE))
    await asyncio.sleep(0)
    impatient.cancel()
    await patient


async def test_cancelled_request_is_replaced_by_the_next() -> None:
    coordinators = Coordinators(lambda _, request: results(request))
    persister = DefaultPersister(coordinators, QUICK)
    coordinators.busy.clear()
    under_way = asyncio.create_task(persister.write(KEY._replace(partition=5), CHANGE))
    await eventually(lambda: len(coordinators.requests) == 1)
    impatient = asyncio.create_task(persister.write(KEY, CHANGE._replace(start_offset=11)))
    await asyncio.sleep(0)
    impatient.cancel()
    patient = asyncio.create_task(persister.write(KEY, CHANGE._replace(start_offset=12)))
    await asyncio.sleep(0)
    coordinators.busy.set()
    await asyncio.gather(under_way, patient)
    starts = [request.topics[0].partitions[0].start_offset for _, request in coordinators.requests]
    assert starts == [10, 12]


async def test_unexpected_exception_is_logged_and_returned_as_an_error() -> None:
    def fail(rpc: str, request: Any) -> Any:
        raise RuntimeError

    with capture_logs() as lines:
        error = await refusal(DefaultPersister(Coordinators(fail), QUICK).write(KEY, CHANGE))
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert [line["event"] for line in lines] == ["request to the share coordinator failed unexpectedly"]


async def test_unknown_topic_fails_long_before_the_call_timeout() -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    coordinators = Coordinators(lambda _, request: results(request, error_code=int(unknown)))
    persister = DefaultPersister(coordinators, replace(QUICK, call_timeout=3600.0, metadata_lag=0.05))
    assert (await refusal(persister.write(KEY, CHANGE))).code is unknown
    assert len(coordinators.requests) > 1
