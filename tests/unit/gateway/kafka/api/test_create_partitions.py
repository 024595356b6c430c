"""CreatePartitions: each topic has its own result; assignments are checked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import CreatePartitionsRequest, CreatePartitionsResponse
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness


def topic(
    name: str, count: int, assignments: Sequence[Sequence[int]] | None = None
) -> CreatePartitionsRequest.CreatePartitionsTopic:
    made = [CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=ids) for ids in assignments or ()]
    return CreatePartitionsRequest.CreatePartitionsTopic(
        name=name, count=count, assignments=None if assignments is None else made
    )


def reply(request: pb.CreatePartitionsRequest) -> pb.CreatePartitionsResponse:
    return pb.CreatePartitionsResponse(
        results=[pb.CreatePartitionsResponse.Topic(name=one.name) for one in request.topics]
    )


async def test_each_topic_has_its_own_result(harness: Harness) -> None:
    harness.services.reply("CreatePartitions", reply)
    topics = [
        topic(TOPIC.name, 4, [[1], [1]]),
        topic("unchecked", 9),
        topic("unknown", 3, [[1]]),
        topic("twice", 3),
        topic("twice", 3),
    ]
    request = CreatePartitionsRequest(topics=topics, validate_only=True)
    response = await harness.call(3, request, CreatePartitionsResponse)
    assert [(one.name, one.error_code) for one in response.results] == [
        (TOPIC.name, ErrorCode.NONE),
        ("unchecked", ErrorCode.NONE),
        ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("twice", ErrorCode.INVALID_REQUEST),
        ("twice", ErrorCode.INVALID_REQUEST),
    ]
    sent = harness.services.only("CreatePartitions")
    assert [(one.name, one.count) for one in sent.topics] == [(TOPIC.name, 4), ("unchecked", 9)]
    assert sent.validate_only


@pytest.mark.parametrize("assignments", [[[1]], [[1], []], [[1], [2]], [[1, 1], [1, 1]]])
async def test_invalid_assignments_are_rejected(harness: Harness, assignments: list[list[int]]) -> None:
    request = CreatePartitionsRequest(topics=[topic(TOPIC.name, 4, assignments)])
    response = await harness.call(0, request, CreatePartitionsResponse)
    assert response.results[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
