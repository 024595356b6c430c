"""EndTxn: commits or aborts, and returns the next epoch from version 5 on."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.kafka_wire.messages import EndTxnRequest, EndTxnResponse
from tests.unit.gateway.kafka.api.harness import Harness

REQUEST = EndTxnRequest(transactional_id="t", producer_id=5, producer_epoch=2, committed=True)


@pytest.mark.parametrize(("version", "level", "epoch"), [(4, 0, -1), (5, 2, 3)])
async def test_the_response_has_the_next_epoch_from_version_5_on(
    harness: Harness, version: int, level: int, epoch: int
) -> None:
    harness.services.reply("EndTxn", pb.EndTxnResponse(producer_id=5, producer_epoch=3))
    response = await harness.call(version, REQUEST, EndTxnResponse)
    assert (response.error_code, response.producer_epoch) == (ErrorCode.NONE, epoch)
    sent = harness.services.only("EndTxn")
    assert (sent.transactional_id, sent.producer_id, sent.producer_epoch) == ("t", 5, 2)
    assert (sent.committed, sent.transaction_version) == (True, level)


@pytest.mark.parametrize("harness", [{"transaction.version": 0}], indirect=True)
async def test_the_feature_keeps_the_epoch(harness: Harness) -> None:
    harness.services.reply("EndTxn", pb.EndTxnResponse(producer_id=5, producer_epoch=2))
    await harness.call(5, REQUEST, EndTxnResponse)
    assert harness.services.only("EndTxn").transaction_version == 0


@pytest.mark.parametrize(
    ("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)]
)
async def test_a_fenced_producer_has_the_error_of_the_version(
    harness: Harness, version: int, code: ErrorCode
) -> None:
    harness.services.fail("EndTxn", ErrorCode.PRODUCER_FENCED)
    assert (await harness.call(version, REQUEST, EndTxnResponse)).error_code == code
