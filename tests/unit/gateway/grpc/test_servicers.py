"""RPCs of PlanService and ProduceService, and methods made from functions of the gateway."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import plan_pb2, produce_pb2
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT
from sharebroker_server.gateway.context import Gateway, deadline_of
from sharebroker_server.gateway.grpc.servicers import PlanServicer, Servicer, rpc
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.plan.conftest import SESSION, Calls, committed, plan
from tests.unit.gateway.produce.requests import appending, produced, records, refused


class Context:
    """A call that its client ends after `seconds`; None: never."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def time_remaining(self) -> float | None:
        return self._seconds


async def test_the_function_gets_the_gateway_the_request_and_the_deadline(harness: Harness) -> None:
    calls: list[tuple[Gateway, str, float]] = []

    async def shout(gateway: Gateway, request: str, deadline: Deadline) -> str:
        calls.append((gateway, request, deadline.remaining()))
        return request.upper()

    class Shouting(Servicer[Gateway]):
        Shout: Any = rpc(shout)

    servicer = Shouting(harness.gateway)
    assert await servicer.Shout("a", Context(5.0)) == "A"
    assert await servicer.Shout("b", Context(None)) == "B"
    assert [(gateway, request) for gateway, request, _ in calls] == [
        (harness.gateway, "a"),
        (harness.gateway, "b"),
    ]
    assert 4.0 < calls[0][2] < 5.0, "the function ends slightly before its caller's deadline"
    assert 5.0 < calls[1][2] <= REQUEST_TIMEOUT


@pytest.fixture
def servicer(harness: Harness, calls: Calls) -> PlanServicer:
    return PlanServicer(harness.gateway)


async def test_plan_acquires_records_for_the_session(servicer: PlanServicer, calls: Calls) -> None:
    response = await servicer.Plan(plan(), Context(None))
    assert [(planned.range.partition, planned.delivery_count) for planned in response.ranges] == [(0, 1)]
    assert calls.acquired


async def test_commit_applies_the_verdicts(servicer: PlanServicer, calls: Calls) -> None:
    request = plan_pb2.CommitRequest(session=SESSION, commit=committed(0, 4))
    await servicer.Commit(request, Context(None))
    assert [part.partition for call in calls.reconciled for part in call.parts] == [0]


async def test_published_records_are_appended(harness: Harness) -> None:
    harness.leader.answer = appending
    request = produce_pb2.PublishRequest(topic="flights", records=records((b"key", "text")))
    response = await harness.produce.Publish(request)
    assert [position.offset for position in response.positions] == [100]
    assert len(harness.leader.of(leader.ProduceRequest)) == 1


async def test_produced_batches_are_appended_unchanged(harness: Harness) -> None:
    harness.leader.answer = appending
    response = await harness.produce.Produce(produced(1, b"batch", name="flights"))
    (appended,) = harness.leader.of(leader.ProduceRequest)
    assert [(part.partition, part.record_batches) for part in appended.partitions] == [(1, b"batch")]
    (topic,) = response.responses
    assert [(part.index, part.base_offset) for part in topic.partition_responses] == [(1, 100)]


async def test_stream_responds_with_the_id_of_each_request(harness: Harness) -> None:
    harness.leader.answer = appending
    call = harness.produce.ProduceStream()
    await call.write(produce_pb2.ProduceStreamRequest(id=7, produce=produced(0, name="flights")))
    await call.done_writing()
    assert [response.id async for response in call] == [7]


async def test_invalid_topic_is_rejected(harness: Harness) -> None:
    request = produce_pb2.PublishRequest(topic="no/name", records=records((None, "text")))
    assert (await refused(harness.produce.Publish(request))).code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("remaining", "low", "high"), [(None, 29.0, 30.0), (10.0, 9.8, 9.9), (0.1, 0.0, 0.09)]
)
def test_deadline_is_earlier_than_that_of_the_caller(
    remaining: float | None, low: float, high: float
) -> None:
    assert low <= deadline_of(Context(remaining)).remaining() <= high
