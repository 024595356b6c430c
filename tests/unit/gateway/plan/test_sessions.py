"""Sessions of planned batches: their transactional ids and errors."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as transactions
from sharebroker_protocol.transaction_coordinator.v1.transaction_coordinator_pb2_grpc import (
    TransactionCoordinatorServiceStub,
)
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.plan.offset_ranges import TypedRange
from sharebroker_server.gateway.plan.sessions import StagedBatch, key_of, open_session, session_key, staged
from tests.unit.gateway.conftest import Harness

SESSION = pb.PlanSession(group_id="group", session_id="driver", epoch=(9 << 16) | 3)


class Transactions:
    """A transaction coordinator with one staged verdict, or an error."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.error: KafkaError | None = None

    async def InitProducerId(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        return transactions.InitProducerIdResponse(producer_id=9, producer_epoch=4)

    async def AddPartitionsToTxn(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        return transactions.AddPartitionsToTxnResponse()

    async def ReadStagedVerdicts(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        verdict = transactions.StagedVerdict(topic="t", partition=1, first_offset=2, last_offset=3)
        return transactions.ReadStagedVerdictsResponse(verdicts=[verdict], reconciled=True)


@pytest.fixture
def coordinator(harness: Harness) -> Transactions:
    coordinator = Transactions()
    harness.router.register_local(TransactionCoordinatorServiceStub, coordinator)
    return coordinator


async def test_session_epoch_contains_producer_id_and_epoch(
    harness: Harness, coordinator: Transactions
) -> None:
    epoch = await open_session(harness.gateway, SessionKey("group", "driver"), Deadline(5))
    assert epoch == (9 << 16) | 4
    assert coordinator.requests[0].transactional_id == "plan-session/group/driver"


async def test_session_key_verifies_the_epoch(harness: Harness, coordinator: Transactions) -> None:
    assert await session_key(harness.gateway, SESSION, "", Deadline(5)) == SessionKey("group", "driver")
    (request,) = coordinator.requests
    assert (request.producer_id, request.producer_epoch, request.verify_only) == (9, 3, True)


@pytest.mark.parametrize("principal", ["User:alice", "User:a/group", "User:@", "User:"])
async def test_a_session_of_another_principal_has_another_producer(
    harness: Harness, coordinator: Transactions, principal: str
) -> None:
    key = SessionKey("group", "driver", principal)
    await open_session(harness.gateway, key, Deadline(5))
    assert await session_key(harness.gateway, SESSION, principal, Deadline(5)) == key
    opened, verified = (request.transactional_id for request in coordinator.requests)
    assert opened == verified
    assert re.fullmatch(r"plan-session@User%3A[^/@]*/group/driver", opened)


@pytest.mark.parametrize(
    ("code", "returned"),
    [
        (ErrorCode.PRODUCER_FENCED, ErrorCode.FENCED_MEMBER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_MEMBER_ID),
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
    ],
)
async def test_fenced_and_unknown_sessions_are_rejected(
    harness: Harness, coordinator: Transactions, code: ErrorCode, returned: ErrorCode
) -> None:
    coordinator.error = KafkaError(code)
    with pytest.raises(KafkaError) as failure:
        await session_key(harness.gateway, SESSION, "", Deadline(5))
    assert failure.value.code is returned


async def test_verdicts_are_read_only_for_a_named_batch(harness: Harness, coordinator: Transactions) -> None:
    key, epoch = key_of(SESSION, ""), SESSION.epoch
    assert await staged(harness.gateway, key, epoch, "", Deadline(5)) == StagedBatch()
    found = await staged(harness.gateway, key, epoch, "7", Deadline(5), mark_reconciled=True)
    assert (found.pieces, found.applied, found.pending) == ([TypedRange("t", 1, 2, 3, 0)], True, False)
    (request,) = coordinator.requests
    assert (request.batch, request.mark_reconciled) == ("7", True)
