"""State writes of one loop iteration share a request; a write that fails at once is repeated alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateWrite
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.leases.names import Shard
from sharebroker_server.persister import batching
from sharebroker_server.persister.batching import RequestBatcher, WriteBatcher
from sharebroker_server.persister.port import Begun, Changes

AWAY = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class FakePersister:
    """Requests stay in flight until a test completes them; `local`: the shards are in this process."""

    def __init__(self) -> None:
        self.local = True
        self.begun: list[tuple[Shard, list[int], Begun]] = []
        self.alone: list[int] = []
        self.failure: Exception | None = None

    def begin(self, shard: Shard, changes: Changes) -> Begun | None:
        if not self.local:
            return None
        begun: Begun = asyncio.get_running_loop().create_future()
        self.begun.append((shard, [change.start_offset for _, change in changes], begun))
        return begun

    async def write(self, key: SharePartitionKey, change: StateWrite) -> None:
        if self.failure is not None:
            raise self.failure
        self.alone.append(change.start_offset)


class FakeSource:
    """A share-partition that writes `number` as its start offset; `outcomes` are those it received."""

    def __init__(self, number: int, shard: Shard = 7) -> None:
        self.key = SharePartitionKey("g", "T" * 22, number)
        self.shard: Shard = shard
        self.write_span: Any = None
        self.number = number
        self.rejected = False
        self.outcomes: list[ErrorCode | None] = []

    def next_write(self) -> StateWrite | None:
        return None if self.rejected else StateWrite(1, 1, self.number, 0, ())

    def written(self, error: KafkaError | None) -> None:
        self.outcomes.append(error.code if error else None)


class Harness:
    def __init__(self) -> None:
        self.persister = FakePersister()
        self.batcher = WriteBatcher(cast("Any", self.persister))

    def add(self, *sources: FakeSource) -> None:
        for source in sources:
            self.batcher.add(source)


async def test_writes_of_one_loop_iteration_share_a_request_per_shard() -> None:
    harness = Harness()
    sources = [FakeSource(1), FakeSource(2), FakeSource(3, shard=8)]
    harness.add(*sources)
    assert not harness.persister.begun  # at the end of the loop iteration
    await turns()
    assert [(shard, starts) for shard, starts, _ in harness.persister.begun] == [(7, [1, 2]), (8, [3])]
    for _, starts, begun in harness.persister.begun:
        begun.set_result([None] * len(starts))
    await turns()
    assert [source.outcomes for source in sources] == [[None], [None], [None]]


async def test_write_rejected_before_sending_is_dropped() -> None:
    harness = Harness()
    rejected, other = FakeSource(1), FakeSource(2)
    harness.add(rejected, other)
    rejected.rejected = True
    await turns()
    assert [starts for _, starts, _ in harness.persister.begun] == [[2]]


def _one_rejected(begun: Begun) -> None:
    begun.set_result([AWAY])


def _all_failed(begun: Begun) -> None:
    begun.set_exception(AWAY)


@pytest.mark.parametrize("end", [_one_rejected, _all_failed, None])
async def test_a_write_that_fails_at_once_is_repeated_alone(end: Callable[[Begun], None] | None) -> None:
    harness, source = Harness(), FakeSource(1)
    harness.persister.local = end is not None
    harness.add(source)
    await turns()
    if end is not None:
        end(harness.persister.begun[0][-1])
    await turns()
    assert (harness.persister.alone, source.outcomes) == ([1], [None])


async def test_a_failed_write_leaves_the_others_of_its_request_alone() -> None:
    harness, first, second = Harness(), FakeSource(1), FakeSource(2)
    harness.persister.failure = AWAY
    harness.add(first, second)
    await turns()
    harness.persister.begun[0][-1].set_result([None, AWAY])
    await turns()
    assert (first.outcomes, second.outcomes) == ([None], [AWAY.code])


@pytest.mark.parametrize(
    ("failure", "code"),
    [(AWAY, ErrorCode.COORDINATOR_NOT_AVAILABLE), (RuntimeError(), ErrorCode.UNKNOWN_SERVER_ERROR)],
)
async def test_the_source_receives_the_final_error(failure: Exception, code: ErrorCode) -> None:
    harness, source = Harness(), FakeSource(1)
    harness.persister.local, harness.persister.failure = False, failure
    harness.add(source)
    with capture_logs():
        await turns()
    assert source.outcomes == [code]


async def test_exception_of_one_source_does_not_affect_other_outcomes() -> None:
    harness, failing, other = Harness(), FakeSource(1), FakeSource(2)
    failing.written = None  # type: ignore[assignment, method-assign]
    harness.add(failing, other)
    await turns()
    with capture_logs() as lines:
        harness.persister.begun[0][-1].set_result([None, None])
        await turns()
    assert [line["event"] for line in lines] == ["completion of a state write failed"]
    assert other.outcomes == [None]


async def test_a_request_that_cannot_start_is_repeated_alone() -> None:
    harness, source = Harness(), FakeSource(1)
    harness.persister.begin = None  # type: ignore[assignment, method-assign]
    harness.add(source)
    with capture_logs() as lines:
        await turns()
    assert [line["event"] for line in lines] == ["state writes could not be started"]
    assert (harness.persister.alone, source.outcomes) == ([1], [None])


async def test_a_traced_write_is_sent_alone() -> None:
    harness, traced, other = Harness(), FakeSource(1), FakeSource(2)
    traced.write_span = object()
    harness.add(traced, other)
    await turns()
    assert (harness.persister.alone, [starts for _, starts, _ in harness.persister.begun]) == ([1], [[2]])


def key(partition: int) -> SharePartitionKey:
    return SharePartitionKey("g", "T" * 22, partition)


class Requests:
    """A batcher of summary requests; `gate` holds requests back, `sent` are their partitions."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.sent: list[list[int]] = []
        self.failure: Exception | None = None
        self.idle = 0
        self.batcher = RequestBatcher(
            self._send, lambda: pb.ReadShareGroupStateSummaryRequest(group_id="g"), "g", self._on_idle
        )

    def request(self, partition: int) -> asyncio.Task[Any]:
        return asyncio.create_task(self.batcher.request(key(partition), partition, 1.0))

    def _on_idle(self) -> None:
        self.idle += 1

    async def _send(self, request: Any, timeout: float) -> Any:
        partitions = [p for topic in request.topics for p in topic.partitions]
        self.sent.append(partitions)
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        result = pb.ReadShareGroupStateSummaryResponse.TopicData(topic_id="T" * 22)
        for partition in partitions:
            result.partitions.add(partition=partition, start_offset=partition * 10)
        return pb.ReadShareGroupStateSummaryResponse(results=[result])


async def test_requests_that_arrive_while_one_is_in_flight_share_the_next() -> None:
    harness = Requests()
    tasks = [harness.request(0)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    tasks += [harness.request(1), harness.request(2)]
    await asyncio.sleep(0)
    harness.gate.set()
    assert [(await task).start_offset for task in tasks] == [0, 10, 20]
    assert (harness.sent, harness.idle) == ([[0], [1, 2]], 1)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (KafkaError(ErrorCode.NOT_COORDINATOR), ErrorCode.NOT_COORDINATOR),
        (RuntimeError(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_a_failed_request_fails_every_partition_in_it(failure: Exception, code: ErrorCode) -> None:
    harness = Requests()
    harness.failure = failure
    harness.gate.set()
    outcomes = await asyncio.gather(harness.request(0), harness.request(1), return_exceptions=True)
    assert [outcome.code for outcome in outcomes if isinstance(outcome, KafkaError)] == [code, code]


async def test_a_request_has_a_limited_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "PARTS_AT_ONCE", 2)
    harness = Requests()
    harness.gate.set()
    outcomes = await asyncio.gather(*map(harness.request, range(5)))
    assert [outcome.start_offset for outcome in outcomes] == [0, 10, 20, 30, 40]
    assert (harness.sent, harness.idle) == ([[0, 1], [2, 3], [4]], 1)
