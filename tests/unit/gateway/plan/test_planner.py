"""Planned batches: which leaders are called, and what they are sent."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import GroupCoordinatorServiceStub
from sharebroker_protocol.model import AcquiredRange
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
    SharePartitionLeaderServiceStub,
)
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as transactions
from sharebroker_protocol.transaction_coordinator.v1.transaction_coordinator_pb2_grpc import (
    TransactionCoordinatorServiceStub,
)
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.plan.planner import Planner
from sharebroker_server.share_calls.values import (
    AcquireCall,
    AcquireResult,
    Left,
    LeftReason,
    ReconcileCall,
    ReconcileResult,
)
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC

SESSION = pb.PlanSession(group_id="group", session_id="driver", epoch=5 << 16)


class Transactions:
    """A transaction coordinator that accepts every session and stores no verdicts."""

    async def AddPartitionsToTxn(self, request: Any, context: Any) -> Any:
        return transactions.AddPartitionsToTxnResponse()

    async def ReadStagedVerdicts(self, request: Any, context: Any) -> Any:
        return transactions.ReadStagedVerdictsResponse()


class Calls:
    """A leader in this process; `pending` reconciliations are not applied yet."""

    def __init__(self) -> None:
        self.acquired: list[AcquireCall] = []
        self.reconciled: list[ReconcileCall] = []
        self.pending = 0

    async def acquire(self, call: AcquireCall) -> list[AcquireResult]:
        self.acquired.append(call)
        held = [AcquiredRange(0, call.max_records - 1, 1, 7, 12.0)]
        return [
            AcquireResult(*part, acquired=held if part.partition == 0 else []) for part in call.partitions
        ]

    async def reconcile(self, call: ReconcileCall, timeout: float) -> list[ReconcileResult]:
        self.reconciled.append(call)
        left = []
        if self.pending and call.parts:
            self.pending -= 1
            left = [Left(2, 3, LeftReason.UNDER_WAY)]
        elif call.parts:
            left = [Left(0, 0, LeftReason.FINISHED)]
        return [ReconcileResult(part.topic_id, part.partition, left=left) for part in call.parts]


@pytest.fixture
def calls(harness: Harness) -> Calls:
    calls = Calls()
    harness.router.register_local(SharePartitionLeaderServiceStub, harness.leader, calls)
    harness.router.register_local(GroupCoordinatorServiceStub, harness.coordinator)
    harness.router.register_local(TransactionCoordinatorServiceStub, Transactions())
    return calls


def committed(first: int, last: int) -> list[pb.PlanVerdict]:
    span = pb.PlanRange(topic=TOPIC.name, partition=0, first_offset=first, last_offset=last)
    return [pb.PlanVerdict(range=span, type=1)]  # type: ignore[arg-type]  # ACCEPT


def plan(**fields: Any) -> pb.PlanRequest:
    return pb.PlanRequest(
        session=SESSION, topics=[pb.PlanRequest.Topic(name=TOPIC.name)], max_records=10, **fields
    )


async def test_plan_acquires_without_records(harness: Harness, calls: Calls) -> None:
    response = await Planner(harness.gateway).plan(plan(), Deadline(5))
    assert [(span.range.first_offset, span.range.last_offset) for span in response.ranges] == [(0, 9)]
    (call,) = calls.acquired
    assert (call.member_id, call.max_records, call.without_records) == ("driver", 10, True)


async def test_plan_reads_held_locks_by_one_call_per_leader(harness: Harness, calls: Calls) -> None:
    await Planner(harness.gateway).plan(plan(), Deadline(5))
    (call,) = calls.reconciled
    assert (list(call.parts), call.topic_ids, call.renew_held) == ([], [TOPIC.topic_id], True)


async def test_commit_is_sent_before_the_next_batch_is_planned(harness: Harness, calls: Calls) -> None:
    response = await Planner(harness.gateway).plan(plan(commit=committed(0, 4)), Deadline(5))
    (part,) = calls.reconciled[0].parts
    assert [(batch.first, batch.last, tuple(batch.types)) for batch in part.batches] == [(0, 4, (1,))]
    assert [item.range.first_offset for item in response.left] == [0]


async def test_pending_offsets_are_sent_again(harness: Harness, calls: Calls) -> None:
    calls.pending = 1
    request = pb.CommitRequest(session=SESSION, commit=committed(0, 4))
    response = await Planner(harness.gateway).commit(request, Deadline(5))
    sent = [[(batch.first, batch.last) for batch in call.parts[0].batches] for call in calls.reconciled]
    assert sent == [[(0, 4)], [(2, 3)]]
    assert response.repeated


async def test_release_is_sent_to_the_leaders_of_all_partitions(harness: Harness, calls: Calls) -> None:
    request = pb.ReleaseRequest(session=SESSION, topics=[TOPIC.name])
    await Planner(harness.gateway).release(request, Deadline(5))
    (sent,) = harness.leader.of(leader.ReleaseMemberRequest)
    assert [part.partition for part in sent.partitions] == [0, 1]


async def test_plan_rejects_a_topic_that_occurs_twice(harness: Harness, calls: Calls) -> None:
    topic = pb.PlanRequest.Topic(name=TOPIC.name)
    with pytest.raises(KafkaError) as failure:
        await Planner(harness.gateway).plan(
            pb.PlanRequest(session=SESSION, topics=[topic, topic], max_records=1), Deadline(5)
        )
    assert failure.value.code is ErrorCode.INVALID_REQUEST
    assert calls.reconciled == []
