"""Reconciliation of planned batches at their leaders."""

from __future__ import annotations

from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.plan.planner import Planner
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.plan.conftest import SESSION, Calls, committed, plan


async def test_plan_reads_held_locks_by_one_call_per_leader(harness: Harness, calls: Calls) -> None:
    await Planner(harness.gateway).plan(plan(), Deadline(5))
    (call,) = calls.reconciled
    assert (list(call.parts), call.topic_ids, call.renew_held) == ([], [TOPIC.topic_id], True)


async def test_pending_offsets_are_sent_again(harness: Harness, calls: Calls) -> None:
    calls.pending = 1
    request = pb.CommitRequest(session=SESSION, commit=committed(0, 4))
    response = await Planner(harness.gateway).commit(request, Deadline(5))
    sent = [[(batch.first, batch.last) for batch in call.parts[0].batches] for call in calls.reconciled]
    assert sent == [[(0, 4)], [(2, 3)]]
    assert response.repeated
