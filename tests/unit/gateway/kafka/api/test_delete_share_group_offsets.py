"""DeleteShareGroupOffsets: each topic has its own result."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.kafka_wire.messages import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from sharebroker_server.rpc.errors import wire
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness


def request(*names: str) -> DeleteShareGroupOffsetsRequest:
    topic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
    return DeleteShareGroupOffsetsRequest(group_id="g", topics=[topic(topic_name=name) for name in names])


async def test_each_topic_has_its_own_result(harness: Harness) -> None:
    group = pb.ShareGroupDescribeResponse.DescribedGroup(group_id="g", group_epoch=1)
    harness.services.reply("ShareGroupDescribe", pb.ShareGroupDescribeResponse(groups=[group]))
    answer = pb.DeleteShareGroupOffsetsResponse()
    answer.responses.add(topic_name="flights", topic_id=TOPIC.topic_id)
    unknown = wire(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    answer.responses.add(topic_name="none", error_code=unknown, error_message="no")
    harness.services.reply("DeleteShareGroupOffsets", answer)
    response = await harness.call(0, request("flights", "none"), DeleteShareGroupOffsetsResponse)
    found = [(one.topic_name, one.topic_id, one.error_code, one.error_message) for one in response.responses]
    assert found == [
        ("flights", TOPIC.topic_id, ErrorCode.NONE, None),
        ("none", "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no"),
    ]
    assert harness.services.only("DeleteShareGroupOffsets").topic_names == ["flights", "none"]


async def test_another_coordinator_is_an_error(harness: Harness) -> None:
    harness.lead_elsewhere()
    response = await harness.call(0, request("flights"), DeleteShareGroupOffsetsResponse)
    assert (response.error_code, response.responses) == (ErrorCode.NOT_COORDINATOR, [])


async def test_forbidden_topics_are_errors_and_the_others_are_deleted(
    harness: Harness, authorizer: TableAuthorizer
) -> None:
    group = pb.ShareGroupDescribeResponse.DescribedGroup(group_id="g", group_epoch=1)
    harness.services.reply("ShareGroupDescribe", pb.ShareGroupDescribeResponse(groups=[group]))
    answer = pb.DeleteShareGroupOffsetsResponse()
    answer.responses.add(topic_name="flights", topic_id=TOPIC.topic_id)
    harness.services.reply("DeleteShareGroupOffsets", answer)
    authorizer.deny(AclOperation.READ, AclResourceType.TOPIC, "secret")
    response = await harness.call(0, request("secret", "flights"), DeleteShareGroupOffsetsResponse)
    assert [(one.topic_name, one.error_code) for one in response.responses] == [
        ("flights", ErrorCode.NONE),
        ("secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]
    assert harness.services.only("DeleteShareGroupOffsets").topic_names == ["flights"]
