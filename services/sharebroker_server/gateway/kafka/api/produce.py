"""Produce (0): appends record batches to the logs of partitions, without changing their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.names import check_not_internal
from sharebroker_server.catalog.records import Topic
from sharebroker_server.gateway.kafka.call import Api, Call, Coalescing, for_version, refusal
from sharebroker_server.gateway.kafka.cluster_view import current_leader, node_endpoints
from sharebroker_server.gateway.kafka.transactions import transaction_version
from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.messages import ProduceRequest, ProduceResponse
from sharebroker_server.leader_calls.values import AppendCall, AppendPart, AppendResult
from sharebroker_server.record_log.core.batch import HEADER_SIZE, header_of

_ACKS: Final = (-1, 0, 1)
_ZSTD: Final = 4
_FIRST_WITH_ZSTD: Final = 7
_ADDS_PARTITIONS: Final = 12
"""From this version on a write adds the partition to the transaction (KIP-890)."""

_BY_ID: Final = 13
"""From this version on requests name topics by id."""

_Topic = ProduceResponse.TopicProduceResponse
_Partition = ProduceResponse.PartitionProduceResponse


@dataclass(frozen=True, slots=True)
class _Item:
    """One partition of the request, with the error of the checks before the append."""

    topic: Topic | None
    index: int
    records: bytes | None
    error: KafkaError | None

    @property
    def moved(self) -> TopicIdPartition | None:
        """The partition, if another broker leads it."""
        if self.topic is None or self.error is None:
            return None
        if self.error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return None
        return TopicIdPartition(self.topic.topic_id, self.index)


async def handle(call: Call[ProduceRequest]) -> ProduceResponse | None:
    """Appends the batches; they are durable before the response, also with acks=1. acks=0 has no response."""
    (response,) = await _handle_several([call])
    return response


async def _handle_several(calls: Sequence[Call[ProduceRequest]]) -> list[ProduceResponse | None]:
    """Appends the batches of all requests together, so that a producer's next requests do not wait."""
    requests = [
        [[_item(call, topic, part) for part in topic.partition_data] for topic in call.request.topic_data]
        for call in calls
    ]
    first = calls[0]
    parts = [
        AppendPart(item.topic.topic_id, item.index, item.records or b"")
        for topics in requests
        for items in topics
        for item in items
        if item.topic is not None and item.error is None
    ]
    append = AppendCall(
        parts,
        first.request.transactional_id or "",
        transaction_version(first, implied=first.version >= _ADDS_PARTITIONS) > 0,
    )
    appended = iter(await first.gateway.leaders.append(append, first.deadline(first.request.timeout_ms)))
    return [_response(call, topics, appended) for call, topics in zip(calls, requests, strict=True)]


def _fits(call: Call[ProduceRequest], earlier: Call[ProduceRequest]) -> bool:
    """Returns whether two requests may be appended together.

    Requests of a transaction are appended alone: the first one may have to add partitions to the transaction.
    """
    this, other = call.request, earlier.request
    if this.transactional_id is not None or other.transactional_id is not None:
        return False
    return this.acks == other.acks and this.timeout_ms == other.timeout_ms


def _response(
    call: Call[ProduceRequest], topics: list[list[_Item]], appended: Iterator[AppendResult]
) -> ProduceResponse | None:
    responses = [
        _Topic(
            name=data.name,
            topic_id=data.topic_id,
            partition_responses=[_result(call, item, appended) for item in items],
        )
        for data, items in zip(call.request.topic_data, topics, strict=True)
    ]
    if call.request.acks == 0:
        _close_after_failure(responses)
        return None
    moved = [item.moved for items in topics for item in items if item.moved is not None]
    return ProduceResponse(
        responses=responses, node_endpoints=node_endpoints(call.view, moved, ProduceResponse.NodeEndpoint)
    )


def _item(
    call: Call[ProduceRequest],
    data: ProduceRequest.TopicProduceData,
    part: ProduceRequest.PartitionProduceData,
) -> _Item:
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
        return _Item(topic, part.index, None, error)
    return _Item(topic, part.index, part.records, None)


def _check_batch(records: bytes, version: int) -> None:
    """Checks what Kafka's `ProduceRequest.validateRecords` checks; the record log validates the rest."""
    rest = len(records) - HEADER_SIZE
    if rest < 0:
        return
    header = header_of(records)
    if header.codec == _ZSTD and version < _FIRST_WITH_ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Version {version} of Produce does not support zstd."
        )
    if rest >= HEADER_SIZE and HEADER_SIZE <= header.size <= rest:
        raise KafkaError(ErrorCode.INVALID_RECORD, "A request has one record batch for a partition.")


def _topic(call: Call, data: ProduceRequest.TopicProduceData) -> Topic:
    check_not_internal(data.name, data.topic_id)
    if call.version < _BY_ID:
        return call.gateway.topic(data.name)
    topic = call.gateway.catalog.topic_by_id(data.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return topic


def _result(call: Call, item: _Item, appended: Iterator[AppendResult]) -> _Partition:
    if item.error is not None:
        failed = _Partition(
            index=item.index, error_code=item.error.code, error_message=item.error.message, base_offset=-1
        )
        if item.moved is not None:
            failed.current_leader = current_leader(call.view, item.moved, ProduceResponse.LeaderIdAndEpoch)
        return failed
    result = next(appended)
    return _Partition(
        index=item.index,
        error_code=for_version(API.key, call.version, result.error_code),
        error_message=result.error_message or None,
        base_offset=-1 if result.error_code else result.base_offset,
        log_append_time_ms=-1 if result.error_code else result.log_append_time,
        log_start_offset=result.log_start_offset,
    )


def _close_after_failure(responses: list[_Topic]) -> None:
    """Raises BadMessage after a failure: as in Kafka, a closed connection is the only error with acks=0."""
    for topic in responses:
        for part in topic.partition_responses:
            if part.error_code:
                raise BadMessage(f"A Produce with acks=0 failed with error {part.error_code}.")


_refuse = refusal(
    ProduceResponse,
    {"responses": "topic_data", "responses.partition_responses": "partition_data"},
    base_offset=-1,
    error_message=None,
)
API = Api(0, (3, 13), handle, _refuse, coalescing=Coalescing(_handle_several, _fits))
