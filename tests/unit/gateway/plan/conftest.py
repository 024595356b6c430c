"""A leader in this process that records the calls of planned batches."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import GroupCoordinatorServiceStub
from sharebroker_protocol.model import AcquiredRange
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
    SharePartitionLeaderServiceStub,
)
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as transactions
from sharebroker_protocol.transaction_coordinator.v1.transaction_coordinator_pb2_grpc import (
    TransactionCoordinatorServiceStub,
)
from sharebroker_server.leader_calls.values import (
    AcquireCall,
    AcquireResult,
    ReconcileCall,
    ReconcileResult,
    Unreconciled,
    UnreconciledReason,
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
            left = [Unreconciled(2, 3, UnreconciledReason.UNDER_WAY)]
        elif call.parts:
            left = [Unreconciled(0, 0, UnreconciledReason.FINISHED)]
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
