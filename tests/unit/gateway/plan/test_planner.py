"""Planned batches: calls to leaders, and reconciliation."""

from __future__ import annotations

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.plan.planner import Planner
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.plan.conftest import SESSION, Calls, committed, plan


async def test_plan_acquires_without_records(harness: Harness, calls: Calls) -> None:
    response = await Planner(harness.gateway).plan(plan(), "", Deadline(5))
    assert [(span.range.first_offset, span.range.last_offset) for span in response.ranges] == [(0, 9)]
    (call,) = calls.acquired
    assert (call.member_id, call.max_records, call.without_records) == ("driver", 10, True)


async def test_commit_is_sent_before_the_next_batch_is_planned(harness: Harness, calls: Calls) -> None:
    response = await Planner(harness.gateway).plan(plan(commit=committed(0, 4)), "", Deadline(5))
    (part,) = calls.reconciled[0].parts
    assert [(batch.first, batch.last, tuple(batch.types)) for batch in part.batches] == [(0, 4, (1,))]
    assert [item.range.first_offset for item in response.left] == [0]


async def test_release_is_sent_to_the_leaders_of_all_partitions(harness: Harness, calls: Calls) -> None:
    request = pb.ReleaseRequest(session=SESSION, topics=[TOPIC.name])
    await Planner(harness.gateway).release(request, "", Deadline(5))
    (sent,) = harness.leader.of(leader.ReleaseMemberRequest)
    assert [part.partition for part in sent.partitions] == [0, 1]


async def test_plan_rejects_a_topic_that_occurs_twice(harness: Harness, calls: Calls) -> None:
    topic = pb.PlanRequest.Topic(name=TOPIC.name)
    with pytest.raises(KafkaError) as failure:
        await Planner(harness.gateway).plan(
            pb.PlanRequest(session=SESSION, topics=[topic, topic], max_records=1), "", Deadline(5)
        )
    assert failure.value.code is ErrorCode.INVALID_REQUEST
    assert calls.reconciled == []


async def test_plan_reads_held_locks_by_one_call_per_leader(harness: Harness, calls: Calls) -> None:
    await Planner(harness.gateway).plan(plan(), "", Deadline(5))
    (call,) = calls.reconciled
    assert (list(call.parts), call.topic_ids, call.renew_held) == ([], [TOPIC.topic_id], True)


async def test_pending_offsets_are_sent_again(harness: Harness, calls: Calls) -> None:
    calls.pending = 1
    request = pb.CommitRequest(session=SESSION, commit=committed(0, 4))
    response = await Planner(harness.gateway).commit(request, "", Deadline(5))
    sent = [[(batch.first, batch.last) for batch in call.parts[0].batches] for call in calls.reconciled]
    assert sent == [[(0, 4)], [(2, 3)]]
    assert response.repeated
