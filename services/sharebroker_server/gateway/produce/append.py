"""Produce: record batches to their partitions' leaders, bytes as they came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.internal_topics import check_not_internal
from sharebroker_server.catalog.names import check_topic_name
from sharebroker_server.gateway.admin.topics import create_on_demand
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.config import REQUEST_TIMEOUT
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.rpc.partition_errors import refusal

if TYPE_CHECKING:
    from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub as Stub,
    )
    from sharebroker_server.catalog.records import Topic

Part = leader.ProduceRequest.Partition
Answer = leader.ProduceResponse.Partition


class _Asked(NamedTuple):
    """A topic of the request: found, or why not."""

    data: pb.ProduceRequest.TopicData
    topic: Topic | None
    error: KafkaError | None


async def produce(gateway: Gateway, request: pb.ProduceRequest, deadline: Deadline) -> pb.ProduceResponse:
    """Append the batches; each partition has its own result, durable."""
    within = Deadline(min(request.timeout_ms / 1000 or REQUEST_TIMEOUT, deadline.left()))
    asked = [await _find(gateway, data, within) for data in request.topic_data]
    parts = [
        Part(topic_id=topic.topic_id, partition=part.index, record_batches=part.records)
        for data, topic, _ in asked
        if topic is not None
        for part in data.partition_data
        if 0 <= part.index < topic.partitions
    ]
    answers = iter(await append(gateway, parts, within, request.transactional_id, adds_partitions=True))
    return pb.ProduceResponse(responses=[_response(one, answers) for one in asked])


async def append(
    gateway: Gateway,
    parts: Sequence[Part],
    deadline: Deadline,
    transactional_id: str = "",
    *,
    adds_partitions: bool = False,
) -> list[Answer]:
    """Send batches to their leaders; the answers in the same order.

    Transactional batches need the transactional id; `adds_partitions` makes their partitions part of the
    transaction, which else they must be already.
    """

    async def send(stub: Stub, some: list[Part], left: float) -> Sequence[Answer]:
        request = leader.ProduceRequest(
            partitions=some, transactional_id=transactional_id, adds_partitions=adds_partitions
        )
        return (await stub.Produce(request, timeout=left)).partitions

    return await gateway.leaders.each(parts, send, Answer, deadline)


async def _find(gateway: Gateway, data: pb.ProduceRequest.TopicData, deadline: Deadline) -> _Asked:
    try:
        return _Asked(data, await _topic(gateway, data, deadline), None)
    except KafkaError as error:
        return _Asked(data, None, error)


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


def _response(asked: _Asked, answers: Iterable[Answer]) -> pb.ProduceResponse.TopicResponse:
    data, topic, error = asked
    response = pb.ProduceResponse.TopicResponse(
        topic_id=topic.topic_id if topic else data.topic_id, name=topic.name if topic else data.name
    )
    known = iter(answers)
    for part in data.partition_data:
        if topic is not None and 0 <= part.index < topic.partitions:
            response.partition_responses.append(_appended(part.index, next(known)))
        else:
            error = error or KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            response.partition_responses.add(
                index=part.index,
                **refusal(error),
                base_offset=-1,
            )
    return response


def _appended(index: int, answer: Answer) -> pb.ProduceResponse.PartitionResponse:
    return pb.ProduceResponse.PartitionResponse(
        index=index,
        error_code=answer.error_code,
        error_message=answer.error_message,
        base_offset=answer.base_offset if not answer.error_code else -1,
        log_append_time_ms=answer.log_append_time_ms,
        log_start_offset=answer.log_start_offset,
    )
