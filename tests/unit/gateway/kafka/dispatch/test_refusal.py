"""Refusals that follow from the schemas."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.dispatch.refusal import refusal
from sharebroker_server.kafka_wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)
from tests.unit.gateway.kafka.api.harness import Harness

ERROR = KafkaError(ErrorCode.INVALID_REQUEST, "no")


@pytest.fixture
async def harness() -> Any:
    harness = Harness()
    yield harness
    await harness.close()


def test_the_error_of_the_request(harness: Harness) -> None:
    refused = refusal(HeartbeatResponse)(harness.call_of(HeartbeatRequest(group_id="g")), ERROR)
    assert refused == HeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST)


def test_the_message_and_constants(harness: Harness) -> None:
    refuse = refusal(ConsumerGroupHeartbeatResponse, member_epoch=-1)
    refused = refuse(harness.call_of(ConsumerGroupHeartbeatRequest(member_id="m", member_epoch=7)), ERROR)
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, "no")
    assert (refused.member_id, refused.member_epoch) == (None, -1), "fields of the response are not echoed"


def test_nested_items_are_echoed_by_name(harness: Harness) -> None:
    partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=3, offset=70)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=[partition])
    echo = {"topics": "topics", "topics.partitions": "partitions"}
    refuse = refusal(DeleteRecordsResponse, echo, low_watermark=-1)
    (result,) = refuse(harness.call_of(DeleteRecordsRequest(topics=[topic])), ERROR).topics
    assert result.name == "t"
    (failed,) = result.partitions
    assert (failed.partition_index, failed.low_watermark) == (3, -1)
    assert failed.error_code == ErrorCode.INVALID_REQUEST


def test_scalar_items_are_echoed_by_a_function(harness: Harness) -> None:
    refuse = refusal(DeleteGroupsResponse, {"results": "groups_names", "results.group_id": str})
    refused = refuse(harness.call_of(DeleteGroupsRequest(groups_names=["a", "b"])), ERROR)
    assert [(one.group_id, one.error_code) for one in refused.results] == [("a", 42), ("b", 42)]
