"""InitProducerId: assigns producer ids, with and without a transactional id."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.kafka_wire.messages import InitProducerIdRequest, InitProducerIdResponse
from tests.unit.gateway.kafka.api.harness import Harness


async def test_idempotent_producer_gets_a_new_id(harness: Harness) -> None:
    harness.services.reply("InitProducerId", pb.InitProducerIdResponse(producer_id=5, producer_epoch=0))
    harness.lead_elsewhere()  # any broker serves it
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    response = await harness.call(0, request, InitProducerIdResponse)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, 5, 0)
    sent = harness.services.only("InitProducerId")
    optional = [sent.HasField(name) for name in ("transactional_id", "producer_id", "producer_epoch")]
    assert optional == [False, False, False]
    assert sent.transaction_timeout_ms == 1000


async def test_a_transactional_producer_keeps_its_id(harness: Harness) -> None:
    harness.services.reply("InitProducerId", pb.InitProducerIdResponse(producer_id=5, producer_epoch=3))
    request = InitProducerIdRequest(transactional_id="t", producer_id=5, producer_epoch=2)
    response = await harness.call(5, request, InitProducerIdResponse)
    assert (response.producer_id, response.producer_epoch) == (5, 3)
    sent = harness.services.only("InitProducerId")
    assert (sent.transactional_id, sent.producer_id, sent.producer_epoch) == ("t", 5, 2)


@pytest.mark.parametrize(
    ("version", "code"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)]
)
async def test_a_fenced_producer_has_the_error_of_the_version(
    harness: Harness, version: int, code: ErrorCode
) -> None:
    harness.services.fail("InitProducerId", ErrorCode.PRODUCER_FENCED)
    request = InitProducerIdRequest(transactional_id="t")
    response = await harness.call(version, request, InitProducerIdResponse)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (code, -1, -1)


@pytest.mark.parametrize(
    "fields", [{"transactional_id": ""}, {"producer_id": 5}, {"producer_epoch": 0}], ids=str
)
async def test_an_incomplete_identity_is_rejected(harness: Harness, fields: dict[str, Any]) -> None:
    request = InitProducerIdRequest(**{"transactional_id": "t", **fields})
    response = await harness.call(4, request, InitProducerIdResponse)
    assert response.error_code == ErrorCode.INVALID_REQUEST
