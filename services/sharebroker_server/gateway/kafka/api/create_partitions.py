"""CreatePartitions (37): a topic gets more partitions; where they are to be is checked and ignored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.admin.topics import create_partitions
from sharebroker_server.gateway.kafka.cluster_view.replica_placement import check_assignments
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.per_item import check_once, each, error_fields, refusal
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(37)
_Grown = pb.CreatePartitionsResponse.Topic


async def handle(call: Call) -> Message:
    """Each topic has its own result."""
    once = check_once((topic.name for topic in call.request.topics), "topic name")

    def translate(asked: Any) -> pb.CreatePartitionsRequest.Topic:
        once(asked.name)
        if asked.assignments is not None:
            _check_assignments(call, asked)
        return pb.CreatePartitionsRequest.Topic(name=asked.name, count=asked.count)

    async def send(topics: list[pb.CreatePartitionsRequest.Topic]) -> Iterable[_Grown]:
        request = pb.CreatePartitionsRequest(topics=topics, validate_only=call.request.validate_only)
        deadline = call.deadline(call.request.timeout_ms)
        return (await create_partitions(call.gateway, request, deadline)).results

    return _response(call, await each(call.request.topics, translate, send))


def _check_assignments(call: Call, asked: Any) -> None:
    added = asked.count - call.gateway.topic(asked.name).partitions
    if len(asked.assignments) != added > 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(asked.assignments)} "
            "assignment(s) were specified.",
        )
    check_assignments([one.broker_ids for one in asked.assignments], call.view.brokers)


def _response(call: Call, outcomes: Sequence[_Grown | KafkaError]) -> Message:
    return _R.CreatePartitionsResponse(
        results=[
            _R.CreatePartitionsTopicResult(name=asked.name, **error_fields(outcome))
            for asked, outcome in zip(call.request.topics, outcomes, strict=True)
        ]
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    return _response(call, refusal(error, call.request.topics))


API = Api(37, (0, 3), handle, _refuse)
