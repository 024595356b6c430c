"""AddOffsetsToTxn: a group is added as its partition of __consumer_offsets."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as pb
from sharebroker_server.catalog.topics import OFFSETS_TOPIC_ID
from sharebroker_server.kafka_wire.messages import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tests.unit.gateway.kafka.api.harness import Harness

REQUEST = AddOffsetsToTxnRequest(transactional_id="t", producer_id=5, producer_epoch=2, group_id="g")


async def test_the_partition_of_the_groups_offsets_is_added(harness: Harness) -> None:
    harness.services.reply("AddPartitionsToTxn", pb.AddPartitionsToTxnResponse())
    response = await harness.call(4, REQUEST, AddOffsetsToTxnResponse)
    assert response.error_code == ErrorCode.NONE
    request = harness.services.only("AddPartitionsToTxn")
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("t", 5, 2)
    (partition,) = request.partitions
    assert (partition.topic_id, partition.partition) == (OFFSETS_TOPIC_ID, harness.router.group_shard("g"))


@pytest.mark.parametrize(
    ("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)]
)
async def test_a_fenced_producer_has_the_error_of_the_version(
    harness: Harness, version: int, code: ErrorCode
) -> None:
    harness.services.fail("AddPartitionsToTxn", ErrorCode.PRODUCER_FENCED)
    assert (await harness.call(version, REQUEST, AddOffsetsToTxnResponse)).error_code == code


async def test_empty_ids_and_other_coordinators_are_errors(harness: Harness) -> None:
    empty = AddOffsetsToTxnRequest(transactional_id="", group_id="g")
    assert (await harness.call(4, empty, AddOffsetsToTxnResponse)).error_code == ErrorCode.INVALID_REQUEST
    empty = AddOffsetsToTxnRequest(transactional_id="t", group_id="")
    assert (await harness.call(4, empty, AddOffsetsToTxnResponse)).error_code == ErrorCode.INVALID_GROUP_ID
    harness.lead_elsewhere()
    assert (await harness.call(4, REQUEST, AddOffsetsToTxnResponse)).error_code == ErrorCode.NOT_COORDINATOR
    assert not harness.services.requests
