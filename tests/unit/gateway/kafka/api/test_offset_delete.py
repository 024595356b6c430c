"""OffsetDelete: each partition has its own result."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.kafka_wire.messages import OffsetDeleteRequest, OffsetDeleteResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness, codes


def request() -> OffsetDeleteRequest:
    partition, topic = (
        OffsetDeleteRequest.OffsetDeleteRequestPartition,
        OffsetDeleteRequest.OffsetDeleteRequestTopic,
    )
    return OffsetDeleteRequest(
        group_id="g",
        topics=[
            topic(name=TOPIC.name, partitions=[partition(partition_index=1), partition(partition_index=7)]),
            topic(name="unknown", partitions=[partition(partition_index=0)]),
        ],
    )


async def test_each_partition_has_its_own_result(harness: Harness) -> None:
    harness.services.reply("OffsetDelete", pb.OffsetDeleteResponse())
    response = await harness.call(0, request(), OffsetDeleteResponse)
    assert response.error_code == ErrorCode.NONE
    assert {topic.name: codes(topic.partitions) for topic in response.topics} == {
        TOPIC.name: {1: ErrorCode.NONE, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        "unknown": {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    }
    sent = harness.services.only("OffsetDelete")
    assert sent.group_id == "g"
    assert [(one.topic_id, one.partition) for one in sent.partitions] == [(TOPIC.topic_id, 1)]


async def test_errors_of_the_group_are_errors_of_the_request(harness: Harness) -> None:
    harness.services.fail("OffsetDelete", ErrorCode.NON_EMPTY_GROUP)
    response = await harness.call(0, request(), OffsetDeleteResponse)
    assert (response.error_code, response.topics) == (ErrorCode.NON_EMPTY_GROUP, [])


async def test_forbidden_topics_are_not_forwarded(harness: Harness, authorizer: TableAuthorizer) -> None:
    harness.services.reply("OffsetDelete", pb.OffsetDeleteResponse())
    authorizer.deny(AclOperation.READ, AclResourceType.TOPIC)
    response = await harness.call(0, request(), OffsetDeleteResponse)
    forbidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert {topic.name: codes(topic.partitions) for topic in response.topics} == {
        TOPIC.name: {1: forbidden, 7: forbidden},
        "unknown": {0: forbidden},
    }
    assert not harness.services.only("OffsetDelete").partitions
