"""Produce (0): appends record batches to the logs of partitions, without changing their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.topics import Topic, check_not_internal
from sharebroker_server.gateway.kafka.call import Api, Call, Coalescing, Refusal, for_version
from sharebroker_server.gateway.kafka.topics import PORTION, Rejected, topic_of
from sharebroker_server.gateway.produce.append import check_named_once
from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.messages import ProduceRequest, ProduceResponse
from sharebroker_server.leader_calls.values import AppendCall, AppendPart, AppendResult
from sharebroker_server.record_log.core.batch import HEADER_SIZE, BatchHeader, header_of
from sharebroker_server.security.acl import AclOperation, AclResourceType

ACKS: Final = (-1, 0, 1)
_ZSTD: Final = 4
_FIRST_WITH_ZSTD: Final = 7
_ADDS_PARTITIONS: Final = 12
"""From this version on a write adds the partition to the transaction (KIP-890)."""

_BY_ID: Final = 13
"""From this version on requests name topics by id."""

_Topic = ProduceResponse.TopicProduceResponse
_Partition = ProduceResponse.PartitionProduceResponse
_Data = ProduceRequest.PartitionProduceData
_Part = AppendPart | Rejected[_Data]


async def handle(call: Call[ProduceRequest]) -> ProduceResponse | None:
    """Appends the batches; they are durable before the response, also with acks=1. acks=0 has no response."""
    (response,) = await _handle_several([call])
    return response


async def _handle_several(calls: Sequence[Call[ProduceRequest]]) -> list[ProduceResponse | None]:
    """Appends the batches of all requests together, so that a producer's next requests do not wait."""
    requests = [await _parts(call) for call in calls]
    appended = iter(await _append(calls[0], [part for parts in requests for part in parts]))
    return [await _response(call, parts, appended) for call, parts in zip(calls, requests, strict=True)]


async def _append(first: Call[ProduceRequest], parts: Sequence[_Part]) -> list[AppendResult]:
    """Appends the parts that are not rejected, PORTION of them at once; returns their results in order."""
    valid = [part for part in parts if isinstance(part, AppendPart)]
    append = AppendCall(
        valid,
        first.request.transactional_id or "",
        first.transaction_version(implied=first.version >= _ADDS_PARTITIONS) > 0,
    )
    leaders, deadline = first.gateway.leaders, first.deadline(first.request.timeout_ms)
    if len(valid) <= PORTION:
        return await leaders.append(append, deadline)
    results: list[AppendResult] = []
    async for portion in first.gateway.turns.portions(valid, PORTION):
        results += await leaders.append(append._replace(parts=portion), deadline)
    return results


def _fits(call: Call[ProduceRequest], earlier: Call[ProduceRequest]) -> bool:
    """Returns whether two requests may be appended together.

    Requests of a transaction are appended alone: the first one may have to add partitions to the transaction.
    """
    this, other = call.request, earlier.request
    if this.transactional_id is not None or other.transactional_id is not None:
        return False
    return this.acks == other.acks and this.timeout_ms == other.timeout_ms


async def _response(
    call: Call[ProduceRequest], parts: Sequence[_Part], appended: Iterator[AppendResult]
) -> ProduceResponse | None:
    made: list[_Partition] = []
    for part in parts:
        made.append(_result(call, part, appended))
        if not len(made) % PORTION:
            await call.gateway.turns.next()
    results = iter(made)
    response = ProduceResponse(
        responses=[
            _Topic(
                name=data.name,
                topic_id=data.topic_id,
                partition_responses=[*islice(results, len(data.partition_data))],
            )
            for data in call.request.topic_data
        ]
    )
    if call.request.acks == 0:
        close_after_failure(response)
        return None
    moved = [
        (TopicIdPartition(part.led_elsewhere, part.item.index), result)
        for part, result in zip(parts, made, strict=True)
        if isinstance(part, Rejected) and part.led_elsewhere
    ]
    call.view.add_leader_hints(response, moved)
    return response


class _Seen:
    """The partitions that a request has named so far, and whether a batch of it is transactional."""

    __slots__ = ("named", "transactional")

    def __init__(self) -> None:
        self.named: set[tuple[str, int]] = set()
        self.transactional = False


async def _parts(call: Call[ProduceRequest]) -> list[_Part]:
    """Returns the parts of a request, in order."""
    seen = _Seen()
    parts: list[_Part] = []
    for part in _each_part(call, seen):
        parts.append(part)
        if not len(parts) % PORTION:
            await call.gateway.turns.next()
    error = transaction_denial(call) if seen.transactional else None
    if error is not None:
        return [Rejected(part, error) for data in call.request.topic_data for part in data.partition_data]
    return parts


def _each_part(call: Call[ProduceRequest], seen: _Seen) -> Iterator[_Part]:
    """Yields the parts of a request. The permission on a topic is checked once."""
    for data in call.request.topic_data:
        topic = _usable_topic(call, data)
        for part in data.partition_data:
            records = part.records or b""
            header = header_of(records) if len(records) >= HEADER_SIZE else None
            if header is not None and header.transactional:
                seen.transactional = True
            yield (
                Rejected(part, topic)
                if isinstance(topic, KafkaError)
                else _part(call, topic, part, header, seen.named)
            )


def transaction_denial(call: Call[ProduceRequest]) -> KafkaError | None:
    """Returns the error of a request with transactional records, if the client may not WRITE to the id.

    As in Kafka, a request without such records requires no permission on its transactional id, and such
    records require an id.
    """
    rights, transactional_id = call.rights, call.request.transactional_id
    if transactional_id is None:
        return rights.unnamed_denial(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID)
    return rights.denial(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id)


def _usable_topic(call: Call[ProduceRequest], data: ProduceRequest.TopicProduceData) -> Topic | KafkaError:
    """Returns the topic, or why the client may not append to it."""
    try:
        if call.request.acks not in ACKS:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {call.request.acks}; not 0, 1 or -1.")
        return _topic(call, data)
    except KafkaError as error:
        return error


def _part(
    call: Call[ProduceRequest],
    topic: Topic,
    part: _Data,
    header: BatchHeader | None,
    named: set[tuple[str, int]],
) -> _Part:
    """Returns the part to append, after the checks before the append.

    `named` has the partitions of the request so far: a partition is appended to once, with its first part.
    """
    try:
        if not 0 <= part.index < topic.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not call.view.leads(topic.topic_id, part.index):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        check_named_once(named, topic.topic_id, part.index)
        if header is not None:
            _check_batch(header, len(part.records or b""), call.version)
    except KafkaError as error:
        return Rejected(part, error, topic)
    return AppendPart(topic.topic_id, part.index, part.records or b"")


def _check_batch(header: BatchHeader, size: int, version: int) -> None:
    """Checks what Kafka's `ProduceRequest.validateRecords` checks; the record log validates the rest.

    `size` is that of all records of the partition, in bytes.
    """
    if header.codec == _ZSTD and version < _FIRST_WITH_ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Version {version} of Produce does not support zstd."
        )
    rest = size - HEADER_SIZE
    if rest >= HEADER_SIZE and HEADER_SIZE <= header.size <= rest:
        raise KafkaError(ErrorCode.INVALID_RECORD, "A request has one record batch for a partition.")


def _topic(call: Call, data: ProduceRequest.TopicProduceData) -> Topic:
    topic = topic_of(call, AclOperation.WRITE, data.name if call.version < _BY_ID else None, data.topic_id)
    check_not_internal(topic.name, topic.topic_id)
    call.gateway.catalog.catalog.check_own(topic)
    return topic


def _result(call: Call, part: _Part, appended: Iterator[AppendResult]) -> _Partition:
    if isinstance(part, Rejected):
        error = part.error
        return _Partition(
            index=part.item.index, error_code=error.code, error_message=error.message, base_offset=-1
        )
    result = next(appended)
    return _Partition(
        index=part.partition,
        error_code=for_version(API.key, call.version, result.error_code),
        error_message=result.error_message or None,
        base_offset=-1 if result.error_code else result.base_offset,
        log_append_time_ms=-1 if result.error_code else result.log_append_time,
        log_start_offset=result.log_start_offset,
    )


def close_after_failure(response: ProduceResponse) -> None:
    """Raises BadMessage after a failure: as in Kafka, a closed connection is the only error with acks=0."""
    for topic in response.responses:
        for part in topic.partition_responses:
            if part.error_code:
                raise BadMessage(f"A Produce with acks=0 failed with error {part.error_code}.")


_refuse = Refusal(
    ProduceResponse,
    {"responses": "topic_data", "responses.partition_responses": "partition_data"},
    base_offset=-1,
    error_message=None,
)
API = Api(0, (3, 13), handle, _refuse, coalescing=Coalescing(_handle_several, _fits))
