"""Claims that are checked with the transaction coordinator, and how its refusals reach a producer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.leases import names
from sharebroker_server.routing import transaction_check
from sharebroker_server.routing.transaction_check import Claim, CoordinatorCheck
from sharebroker_server.rpc.errors import wire
from sharebroker_server.rpc.stubs import LocalStub

PARTITION = names.partition("t", 4)
VERIFYING, ADDING = Claim("x", adds=False), Claim("x", adds=True)


class Coordinator:
    """Raises its refusals in order, then returns `outcome`; it is also its own router."""

    def __init__(self, *refusals: ErrorCode, outcome: ErrorCode = ErrorCode.NONE) -> None:
        self.refusals = list(refusals)
        self.outcome = outcome
        self.requests: list[pb.AddPartitionsToTxnRequest] = []
        self.forgotten = 0

    async def transaction_coordinator(self, transactional_id: str) -> Any:
        assert transactional_id == "x"
        return LocalStub(self)

    def forget_transaction_coordinator(self, transactional_id: str) -> None:
        self.forgotten += 1

    async def AddPartitionsToTxn(
        self, request: pb.AddPartitionsToTxnRequest, _context: object
    ) -> pb.AddPartitionsToTxnResponse:
        self.requests.append(request)
        if self.refusals:
            raise KafkaError(self.refusals.pop(0))
        return pb.AddPartitionsToTxnResponse(
            partitions=[pb.AddPartitionsToTxnResponse.Partition(error_code=wire(self.outcome))],
            coordinator_epoch=12,
        )


async def confirm(coordinator: Coordinator, claim: Claim, *settings: str) -> int:
    catalog = SimpleNamespace(broker=BrokerConfig.parse(settings))
    return await CoordinatorCheck(cast("Any", coordinator), cast("Any", catalog)).confirm(
        claim, 7, 3, PARTITION
    )


@pytest.mark.parametrize("claim", [VERIFYING, ADDING])
async def test_confirm_sends_producer_and_partition(claim: Claim) -> None:
    coordinator = Coordinator()
    assert await confirm(coordinator, claim) == 12
    (request,) = coordinator.requests
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("x", 7, 3)
    assert request.verify_only is not claim.adds
    assert [(part.topic_id, part.partition) for part in request.partitions] == [("t", 4)]


async def test_moved_or_busy_coordinator_is_retried() -> None:
    coordinator = Coordinator(ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS)
    await confirm(coordinator, ADDING)
    assert (len(coordinator.requests), coordinator.forgotten) == (3, 2)


async def test_partition_outside_the_transaction_is_rejected() -> None:
    with pytest.raises(KafkaError) as refused:
        await confirm(Coordinator(outcome=ErrorCode.TRANSACTION_ABORTABLE), VERIFYING)
    assert refused.value.code is ErrorCode.TRANSACTION_ABORTABLE


@pytest.mark.parametrize(
    ("claim", "refusal", "seen"),
    [
        (ADDING, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (VERIFYING, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ADDING, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (VERIFYING, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.KAFKA_STORAGE_ERROR),
        (ADDING, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
async def test_errors_are_mapped_to_codes_of_append(
    claim: Claim, refusal: ErrorCode, seen: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_check, "TIMEOUT", 0.01)
    with pytest.raises(KafkaError) as refused:
        await confirm(Coordinator(*[refusal] * 9), claim)
    assert refused.value.code is seen


async def test_verification_can_be_disabled_but_adding_cannot() -> None:
    coordinator = Coordinator()
    off = "transaction.partition.verification.enable=false"
    assert await confirm(coordinator, VERIFYING, off) == -1
    assert not coordinator.requests
    await confirm(coordinator, ADDING, off)
    assert coordinator.requests
