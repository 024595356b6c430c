"""Produce: sends record batches to their partitions' leaders without changing them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_server.catalog.internal_topics import check_not_internal
from sharebroker_server.catalog.names import check_topic_name
from sharebroker_server.catalog.records import Topic
from sharebroker_server.gateway.admin.topics import create_on_demand
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.config import REQUEST_TIMEOUT
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.leader_calls.values import AppendCall, AppendPart, AppendResult
from sharebroker_server.rpc.partition_errors import refusal, wire


class _TopicRequest(NamedTuple):
    """A topic of the request, and the topic or the error that was found for it."""

    data: pb.ProduceRequest.TopicData
    topic: Topic | None
    error: KafkaError | None


async def produce(gateway: Gateway, request: pb.ProduceRequest, deadline: Deadline) -> pb.ProduceResponse:
    """Appends the batches; each partition has its own durable result."""
    within = Deadline(min(request.timeout_ms / 1000 or REQUEST_TIMEOUT, deadline.remaining()))
    topics = [await _find(gateway, data, within) for data in request.topic_data]
    parts = [
        AppendPart(topic.topic_id, part.index, part.records)
        for data, topic, _ in topics
        if topic is not None
        for part in data.partition_data
        if 0 <= part.index < topic.partitions
    ]
    call = AppendCall(parts, request.transactional_id, adds_partitions=True)
    results = iter(await gateway.leaders.append(call, within))
    return pb.ProduceResponse(responses=[_response(topic, results) for topic in topics])


async def _find(gateway: Gateway, data: pb.ProduceRequest.TopicData, deadline: Deadline) -> _TopicRequest:
    try:
        return _TopicRequest(data, await _topic(gateway, data, deadline), None)
    except KafkaError as error:
        return _TopicRequest(data, None, error)


async def _topic(gateway: Gateway, data: pb.ProduceRequest.TopicData, deadline: Deadline) -> Topic:
    if not data.topic_id:
        check_topic_name(data.name)
        return await create_on_demand(gateway, data.name, deadline)
    check_not_internal(data.name, data.topic_id)
    topic = gateway.catalog.topic_by_id(data.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if data.name and data.name != topic.name:
        raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
    return topic


def _response(request: _TopicRequest, results: Iterator[AppendResult]) -> pb.ProduceResponse.TopicResponse:
    data, topic, error = request
    response = pb.ProduceResponse.TopicResponse(
        topic_id=topic.topic_id if topic else data.topic_id, name=topic.name if topic else data.name
    )
    for part in data.partition_data:
        if topic is not None and 0 <= part.index < topic.partitions:
            response.partition_responses.append(_partition_response(part.index, next(results)))
        else:
            error = error or KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            response.partition_responses.add(index=part.index, **refusal(error), base_offset=-1)
    return response


def _partition_response(index: int, result: AppendResult) -> pb.ProduceResponse.PartitionResponse:
    return pb.ProduceResponse.PartitionResponse(
        index=index,
        error_code=wire(result.error_code),
        error_message=result.error_message,
        base_offset=-1 if result.error_code else result.base_offset,
        log_append_time_ms=result.log_append_time,
        log_start_offset=result.log_start_offset,
    )
