"""Produce (0): record batches to their partitions' leaders, bytes as they came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.internal_topics import check_not_internal
from sharebroker_server.catalog.records import Topic
from sharebroker_server.gateway.kafka.cluster_view.leader_hints import current_leader, node_endpoints
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call, Joined
from sharebroker_server.gateway.kafka.dispatch.error_versions import told
from sharebroker_server.gateway.kafka.helpers.transactional import transaction_version
from sharebroker_server.gateway.produce.append import Answer, Part, append
from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes
from sharebroker_server.record_log.core.batch import HEADER_SIZE, header_of

_R = response_shapes(0)
_ACKS: Final = (-1, 0, 1)
_ZSTD: Final = 4
_KNOWS_ZSTD: Final = 7
_ADDS_PARTITIONS: Final = 12
"""From this version on partitions become part of a transaction by being written to (KIP-890)."""

_BY_ID: Final = 13
"""From this version on topics have ids, no names."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """One partition of the request, and why it is refused before anything is appended."""

    topic: Topic | None
    index: int
    records: bytes | None
    refused: KafkaError | None

    @property
    def moved(self) -> TopicIdPartition | None:
        """The partition where the client has to ask another broker for it."""
        if self.topic is None or self.refused is None:
            return None
        if self.refused.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return None
        return TopicIdPartition(self.topic.topic_id, self.index)


async def handle(call: Call) -> Message | None:
    """Each partition's batches are durable when it is answered, also with acks=1; acks=0 gets no answer."""
    (answer,) = await _handle_joined([call])
    return answer


async def _handle_joined(calls: Sequence[Call]) -> list[Message | None]:
    """Batches of all the requests leave for their leaders together: a producer's next ones do not wait."""
    every = [
        [[_asked(call, topic, part) for part in topic.partition_data] for topic in call.request.topic_data]
        for call in calls
    ]
    first = calls[0]
    parts = [
        Part(topic_id=one.topic.topic_id, partition=one.index, record_batches=one.records or b"")
        for asked in every
        for topic in asked
        for one in topic
        if one.topic is not None and one.refused is None
    ]
    answers = iter(
        await append(
            first.gateway,
            parts,
            first.deadline(first.request.timeout_ms),
            first.request.transactional_id or "",
            adds_partitions=transaction_version(first, implied=first.version >= _ADDS_PARTITIONS) > 0,
        )
    )
    return [_answer(call, asked, answers) for call, asked in zip(calls, every, strict=True)]


def _fit(call: Call, before: Call) -> bool:
    """A transaction's requests stay by themselves: the first one may have to make room for the others."""
    one, other = call.request, before.request
    if one.transactional_id is not None or other.transactional_id is not None:
        return False
    return bool(one.acks == other.acks and one.timeout_ms == other.timeout_ms)


def _answer(call: Call, asked: list[list[_Asked]], answers: Iterator[Answer]) -> Message | None:
    responses = [
        _R.TopicProduceResponse(
            name=data.name,
            topic_id=data.topic_id,
            partition_responses=[_response(call, one, answers) for one in topic],
        )
        for data, topic in zip(call.request.topic_data, asked, strict=True)
    ]
    if call.request.acks == 0:
        _hang_up_after_failure(responses)
        return None
    moved = [one.moved for topic in asked for one in topic if one.moved is not None]
    return _R.ProduceResponse(
        responses=responses, node_endpoints=node_endpoints(call.view, moved, _R.NodeEndpoint)
    )


def _asked(call: Call, data: Any, part: Any) -> _Asked:
    topic = None
    try:
        if call.request.acks not in _ACKS:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {call.request.acks}; not 0, 1 or -1.")
        topic = _topic(call, data)
        if not 0 <= part.index < topic.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not call.view.leads(topic.topic_id, part.index):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        _check_batch(part.records or b"", call.version)
    except KafkaError as error:
        return _Asked(topic, part.index, None, error)
    return _Asked(topic, part.index, part.records, None)


def _check_batch(records: bytes, version: int) -> None:
    """Kafka: `ProduceRequest.validateRecords`. What else may be wrong with the bytes is the log's to say."""
    room = len(records) - HEADER_SIZE
    if room < 0:
        return
    header = header_of(records)
    if header.codec == _ZSTD and version < _KNOWS_ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce of version {version} does not know zstd."
        )
    if room >= HEADER_SIZE and HEADER_SIZE <= header.size <= room:
        raise KafkaError(ErrorCode.INVALID_RECORD, "A request has one record batch for a partition.")


def _topic(call: Call, data: Any) -> Topic:
    check_not_internal(data.name, data.topic_id)
    if call.version < _BY_ID:
        return call.gateway.topic(data.name)
    topic = call.gateway.catalog.topic_by_id(data.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return topic


def _response(call: Call, one: _Asked, answers: Iterator[Answer]) -> Message:
    if one.refused is not None:
        more: dict[str, Any] = {}
        if one.moved is not None:
            more["current_leader"] = current_leader(call.view, one.moved, _R.LeaderIdAndEpoch)
        return _R.PartitionProduceResponse(
            index=one.index,
            error_code=one.refused.code,
            error_message=one.refused.message,
            base_offset=-1,
            **more,
        )
    answer = next(answers)
    return _R.PartitionProduceResponse(
        index=one.index,
        error_code=told(API.key, call.version, ErrorCode(answer.error_code)),
        error_message=answer.error_message or None,
        base_offset=-1 if answer.error_code else answer.base_offset,
        log_append_time_ms=-1 if answer.error_code else answer.log_append_time_ms,
        log_start_offset=answer.log_start_offset,
    )


def _hang_up_after_failure(responses: list[Any]) -> None:
    """Kafka: closing the connection is all that tells a producer with acks=0 of a failure."""
    for topic in responses:
        for part in topic.partition_responses:
            if part.error_code:
                raise BadMessage(f"A Produce with acks=0 failed with error {part.error_code}.")


def _refuse(call: Call, error: KafkaError) -> Message:
    """Kafka: every partition has the error."""
    code = told(API.key, call.version, error.code)
    return _R.ProduceResponse(
        responses=[
            _R.TopicProduceResponse(
                name=data.name,
                topic_id=data.topic_id,
                partition_responses=[
                    _R.PartitionProduceResponse(index=part.index, error_code=code, base_offset=-1)
                    for part in data.partition_data
                ],
            )
            for data in call.request.topic_data
        ]
    )


API = Api(0, (3, 13), handle, _refuse, joined=Joined(_handle_joined, _fit))
