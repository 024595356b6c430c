"""RPCs of PlanService."""

from __future__ import annotations

import pytest

from sharebroker_protocol.gateway.v1 import plan_pb2
from sharebroker_server.gateway.grpc.plan import PlanServicer
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.grpc.calls import Context
from tests.unit.gateway.plan.conftest import SESSION, Calls, committed, plan


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
