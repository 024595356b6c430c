"""Translates the calls to messages of sharebroker.share_partition_leader.v1 and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import AckBatch, AcquiredRange, AcquireMode, TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.leader_calls.values import (
    AcknowledgeCall,
    AckPart,
    AckResult,
    AcquireCall,
    AcquireResult,
    AppendCall,
    AppendPart,
    AppendResult,
    DeliverInput,
    DeliverOpen,
    DeliverOutput,
    Delivery,
    Left,
    LeftReason,
    LostRange,
    Problem,
    ReconcileCall,
    ReconcileResult,
    StreamAckResult,
)


def acquire_request(call: AcquireCall) -> pb.AcquireRecordsRequest:
    """Encodes a fetch."""
    return pb.AcquireRecordsRequest(
        group_id=call.group_id,
        member_id=call.member_id,
        partitions=partition_messages(call.partitions),
        max_wait_ms=round(call.max_wait * 1000),
        min_bytes=call.min_bytes,
        max_bytes=call.max_bytes,
        max_records=call.max_records,
        batch_size=call.batch_size,
        acquire_mode=delivery.AcquireMode.ValueType(call.mode),
        with_markers=call.with_markers,
        without_records=call.without_records,
        session_id=call.session_id,
    )


def acquire_call(request: pb.AcquireRecordsRequest) -> AcquireCall:
    """Decodes a fetch. Raises ValueError for an unknown acquire mode."""
    return AcquireCall(
        request.group_id,
        request.member_id,
        partition_keys(request.partitions),
        request.max_wait_ms / 1000,
        request.max_records,
        request.min_bytes,
        request.max_bytes,
        request.batch_size,
        AcquireMode(request.acquire_mode),
        request.with_markers,
        request.without_records,
        request.session_id,
    )


def acquire_response(results: Iterable[AcquireResult]) -> list[pb.AcquireRecordsResponse.Partition]:
    """Encodes the results of a fetch."""
    messages = []
    for result in results:
        message = _failable(pb.AcquireRecordsResponse.Partition, result)
        message.record_batches = result.records
        add_acquired(message.acquired, result.acquired)
        messages.append(message)
    return messages


def acquire_results(messages: Iterable[pb.AcquireRecordsResponse.Partition]) -> list[AcquireResult]:
    """Decodes the results of a fetch."""
    return [
        AcquireResult(*_outcome(message), message.record_batches, acquired_ranges(message.acquired))
        for message in messages
    ]


def add_acquired(target: Any, acquired: Iterable[AcquiredRange]) -> None:
    """Appends acquired ranges to a repeated field of AcquiredRecords."""
    for first, last, delivery_count, token, deadline in acquired:
        target.add(
            first_offset=first,
            last_offset=last,
            delivery_count=delivery_count,
            lock_token=token,
            lock_deadline_ms=round(deadline * 1000),
        )


def acquired_ranges(messages: Iterable[delivery.AcquiredRecords]) -> list[AcquiredRange]:
    """Decodes acquired ranges."""
    return [
        AcquiredRange(
            run.first_offset, run.last_offset, run.delivery_count, run.lock_token, run.lock_deadline_ms / 1000
        )
        for run in messages
    ]


def acknowledge_request(call: AcknowledgeCall) -> pb.AcknowledgeRecordsRequest:
    """Encodes acknowledgements."""
    request = pb.AcknowledgeRecordsRequest(
        group_id=call.group_id, member_id=call.member_id, renew_allowed=call.renew_allowed
    )
    for topic_id, partition, batches, delay in call.parts:
        part = request.partitions.add(topic_id=topic_id, partition=partition, delay_ms=round(delay * 1000))
        for first, last, types, token in batches:
            part.batches.add(
                first_offset=first, last_offset=last, acknowledge_types=types, lock_token=token or 0
            )
    return request


def acknowledge_call(request: pb.AcknowledgeRecordsRequest) -> AcknowledgeCall:
    """Decodes acknowledgements."""
    parts = [
        AckPart(
            part.topic_id,
            part.partition,
            [
                AckBatch(
                    batch.first_offset,
                    batch.last_offset,
                    tuple(batch.acknowledge_types),
                    batch.lock_token or None,
                )
                for batch in part.batches
            ],
            part.delay_ms / 1000,
        )
        for part in request.partitions
    ]
    return AcknowledgeCall(request.group_id, request.member_id, parts, request.renew_allowed)


def acknowledge_response(results: Iterable[AckResult]) -> list[pb.AcknowledgeRecordsResponse.Partition]:
    """Encodes the results of acknowledgements."""
    return [_failable(pb.AcknowledgeRecordsResponse.Partition, result) for result in results]


def ack_results(messages: Iterable[pb.AcknowledgeRecordsResponse.Partition]) -> list[AckResult]:
    """Decodes the results of acknowledgements."""
    return [AckResult(*_outcome(message)) for message in messages]


def reconcile_request(call: ReconcileCall) -> pb.SettleRecordsRequest:
    """Encodes a reconciliation."""
    request = pb.SettleRecordsRequest(
        group_id=call.group_id,
        member_id=call.member_id,
        renew_held=call.renew_held,
        topic_ids=call.topic_ids,
    )
    for topic_id, partition, batches, _ in call.parts:
        part = request.partitions.add(topic_id=topic_id, partition=partition)
        for first, last, (ack_type,), _ in batches:
            part.ranges.add(
                first_offset=first, last_offset=last, type=delivery.AcknowledgeType.ValueType(ack_type)
            )
    return request


def reconcile_call(request: pb.SettleRecordsRequest) -> ReconcileCall:
    """Decodes a reconciliation."""
    parts = [
        AckPart(
            part.topic_id,
            part.partition,
            [AckBatch(item.first_offset, item.last_offset, (item.type,)) for item in part.ranges],
        )
        for part in request.partitions
    ]
    return ReconcileCall(
        request.group_id, request.member_id, parts, request.renew_held, tuple(request.topic_ids)
    )


def reconcile_response(results: Iterable[ReconcileResult]) -> list[pb.SettleRecordsResponse.Partition]:
    """Encodes the results of a reconciliation."""
    messages = []
    for result in results:
        message = _failable(pb.SettleRecordsResponse.Partition, result)
        for first, last, reason in result.left:
            message.left.add(
                first_offset=first, last_offset=last, reason=delivery.LeftReason.ValueType(reason)
            )
        add_acquired(message.held, result.held)
        messages.append(message)
    return messages


def reconcile_results(messages: Iterable[pb.SettleRecordsResponse.Partition]) -> list[ReconcileResult]:
    """Decodes the results of a reconciliation."""
    return [
        ReconcileResult(
            *_outcome(message),
            [Left(item.first_offset, item.last_offset, LeftReason(item.reason)) for item in message.left],
            acquired_ranges(message.held),
        )
        for message in messages
    ]


def produce_request(call: AppendCall) -> pb.ProduceRequest:
    """Encodes appends."""
    return pb.ProduceRequest(
        partitions=[
            pb.ProduceRequest.Partition(topic_id=topic_id, partition=partition, record_batches=records)
            for topic_id, partition, records in call.parts
        ],
        transactional_id=call.transactional_id,
        adds_partitions=call.adds_partitions,
    )


def append_call(request: pb.ProduceRequest) -> AppendCall:
    """Decodes appends."""
    parts = [AppendPart(part.topic_id, part.partition, part.record_batches) for part in request.partitions]
    return AppendCall(parts, request.transactional_id, request.adds_partitions)


def produce_response(results: Iterable[AppendResult]) -> list[pb.ProduceResponse.Partition]:
    """Encodes the results of appends."""
    messages = []
    for result in results:
        message = _failable(pb.ProduceResponse.Partition, result)
        message.base_offset = result.base_offset
        message.last_offset = result.last_offset
        message.log_append_time_ms = result.log_append_time
        message.log_start_offset = result.log_start_offset
        messages.append(message)
    return messages


def append_results(messages: Iterable[pb.ProduceResponse.Partition]) -> list[AppendResult]:
    """Decodes the results of appends."""
    return [
        AppendResult(
            *_outcome(message),
            message.base_offset,
            message.last_offset,
            message.log_append_time_ms,
            message.log_start_offset,
        )
        for message in messages
    ]


def open_message(opening: DeliverOpen) -> pb.DeliverRequest.Open:
    """Encodes the opening of a delivery stream."""
    return pb.DeliverRequest.Open(
        group_id=opening.group_id,
        member_id=opening.member_id,
        acquire_mode=delivery.AcquireMode.ValueType(opening.mode),
        batch_size=opening.batch_size,
        pause_on_lock_lost=opening.pause_on_lock_lost,
    )


def deliver_open(message: pb.DeliverRequest.Open) -> DeliverOpen:
    """Decodes the opening of a delivery stream. Raises ValueError for an unknown acquire mode."""
    return DeliverOpen(
        message.group_id,
        message.member_id,
        AcquireMode(message.acquire_mode),
        message.batch_size,
        message.pause_on_lock_lost,
    )


def deliver_request(message: DeliverInput) -> pb.DeliverRequest:
    """Encodes a message to a delivery stream."""
    request = pb.DeliverRequest(
        credit=message.credit,
        acknowledgements=message.acknowledgements,
        rest_unseen=message.rest_unseen,
        resume=message.resume,
    )
    if message.partitions is not None:
        request.partitions.partitions.extend(partition_messages(sorted(message.partitions)))
        request.partitions.SetInParent()
    return request


def deliver_input(request: pb.DeliverRequest) -> DeliverInput:
    """Decodes a message to a delivery stream."""
    partitions = None
    if request.HasField("partitions"):
        partitions = frozenset(partition_keys(request.partitions.partitions))
    return DeliverInput(
        partitions, request.credit, request.acknowledgements, request.rest_unseen, request.resume
    )


def fill_delivered(target: Any, output: DeliverOutput) -> None:
    """Writes a stream's message into a DeliverResponse or ConsumeResponse; their fields have equal names."""
    for topic_id, topic, partition, records, acquired in output.deliveries:
        sent = target.deliveries.add(
            topic_id=topic_id, topic=topic, partition=partition, record_batches=records
        )
        add_acquired(sent.acquired, acquired)
    fill_results(target, output)


def fill_results(target: Any, output: DeliverOutput) -> None:
    """Writes all but the deliveries, as `fill_delivered`."""
    add = target.results.add
    for ack_id, first, last, code, error_message, deadline in output.results:
        if code or deadline:
            add(
                id=ack_id,
                first_offset=first,
                last_offset=last,
                error_code=code,
                error_message=error_message,
                lock_deadline_ms=0 if code else round(deadline * 1000),
            )
        else:
            add(id=ack_id, first_offset=first, last_offset=last)
    for topic_id, partition, first, last, token in output.lost:
        target.lock_lost.add(
            topic_id=topic_id, partition=partition, first_offset=first, last_offset=last, lock_token=token
        )
    for topic_id, partition, code, error_message in output.problems:
        target.problems.add(
            topic_id=topic_id, partition=partition, error_code=code, error_message=error_message
        )


def deliver_output(response: pb.DeliverResponse) -> DeliverOutput:
    """Decodes a message from a delivery stream."""
    return DeliverOutput(
        [
            Delivery(
                sent.topic_id, sent.topic, sent.partition, sent.record_batches, acquired_ranges(sent.acquired)
            )
            for sent in response.deliveries
        ],
        [
            StreamAckResult(
                result.id,
                result.first_offset,
                result.last_offset,
                ErrorCode(result.error_code),
                result.error_message,
                result.lock_deadline_ms / 1000,
            )
            for result in response.results
        ],
        [
            LostRange(lost.topic_id, lost.partition, lost.first_offset, lost.last_offset, lost.lock_token)
            for lost in response.lock_lost
        ],
        [Problem(*_outcome(problem)) for problem in response.problems],
    )


def await_request(
    group_id: str, partitions: Sequence[TopicIdPartition], max_wait: float
) -> pb.AwaitRecordsRequest:
    """Encodes a watch; `max_wait` in seconds."""
    return pb.AwaitRecordsRequest(
        group_id=group_id, partitions=partition_messages(partitions), max_wait_ms=round(max_wait * 1000)
    )


def partition_messages(partitions: Iterable[TopicIdPartition]) -> list[delivery.TopicPartition]:
    """Encodes partitions."""
    return [delivery.TopicPartition(topic_id=t, partition=p) for t, p in partitions]


def partition_keys(partitions: Iterable[delivery.TopicPartition]) -> list[TopicIdPartition]:
    """Decodes partitions."""
    return [TopicIdPartition(part.topic_id, part.partition) for part in partitions]


def _failable(make: Any, result: Any) -> Any:
    return make(
        topic_id=result.topic_id,
        partition=result.partition,
        error_code=result.error_code,
        error_message=result.error_message,
    )


def _outcome(message: Any) -> tuple[str, int, ErrorCode, str]:
    return message.topic_id, message.partition, ErrorCode(message.error_code), message.error_message
