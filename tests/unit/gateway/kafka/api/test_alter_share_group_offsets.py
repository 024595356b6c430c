"""AlterShareGroupOffsets: the request and the response are converted field by field."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.kafka_wire.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from sharebroker_server.rpc.errors import wire
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness


def request() -> AlterShareGroupOffsetsRequest:
    partition = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition
    topic = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic(
        topic_name="flights", partitions=[partition(partition_index=3, start_offset=70)]
    )
    return AlterShareGroupOffsetsRequest(group_id="g", topics=[topic])


async def test_each_partition_has_its_own_result(harness: Harness) -> None:
    harness.services.reply("ShareGroupDescribe", lambda _: described())
    answer = pb.AlterShareGroupOffsetsResponse()
    topic = answer.responses.add(topic_name="flights", topic_id=TOPIC.topic_id)
    topic.partitions.add(partition=3)
    topic.partitions.add(
        partition=4, error_code=wire(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), error_message="no"
    )
    harness.services.reply("AlterShareGroupOffsets", answer)
    response = await harness.call(0, request(), AlterShareGroupOffsetsResponse)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    (result,) = response.responses
    assert (result.topic_name, result.topic_id) == ("flights", TOPIC.topic_id)
    assert [(one.partition_index, one.error_code, one.error_message) for one in result.partitions] == [
        (3, ErrorCode.NONE, None),
        (4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no"),
    ]
    sent = harness.services.only("AlterShareGroupOffsets")
    assert sent.group_id == "g"
    assert [(one.partition, one.start_offset) for one in sent.topics[0].partitions] == [(3, 70)]


def described() -> pb.ShareGroupDescribeResponse:
    group = pb.ShareGroupDescribeResponse.DescribedGroup(group_id="g", group_epoch=1)
    return pb.ShareGroupDescribeResponse(groups=[group])


async def test_another_coordinator_is_an_error(harness: Harness) -> None:
    harness.lead_elsewhere()
    response = await harness.call(0, request(), AlterShareGroupOffsetsResponse)
    assert response.error_code == ErrorCode.NOT_COORDINATOR
    assert response.error_message == "Another broker coordinates 'g'."


@pytest.mark.parametrize("harness", [{"share.version": 0}], indirect=True)
async def test_the_feature_disables_the_api(harness: Harness) -> None:
    response = await harness.call(0, request(), AlterShareGroupOffsetsResponse)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_forbidden_topic_is_not_altered(harness: Harness, authorizer: TableAuthorizer) -> None:
    authorizer.deny(AclOperation.READ, AclResourceType.TOPIC, "flights")
    response = await harness.call(0, request(), AlterShareGroupOffsetsResponse)
    (result,) = response.responses
    assert (response.error_code, result.topic_name) == (ErrorCode.NONE, "flights")
    assert [(one.partition_index, one.error_code) for one in result.partitions] == [
        (3, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    ]
    assert not harness.services.requests
