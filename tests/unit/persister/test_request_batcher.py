"""One request in flight per batcher; what arrives meanwhile shares the next."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.persister.request_batcher import RequestBatcher


def key(partition: int) -> SharePartitionKey:
    return SharePartitionKey("g", "T" * 22, partition)


class Harness:
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
    harness = Harness()
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
    harness = Harness()
    harness.failure = failure
    harness.gate.set()
    outcomes = await asyncio.gather(harness.request(0), harness.request(1), return_exceptions=True)
    assert [outcome.code for outcome in outcomes if isinstance(outcome, KafkaError)] == [code, code]
