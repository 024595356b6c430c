"""The calls as messages of sharebroker.share_partition_leader.v1, to and fro."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import AckBatch, AcquiredRange, AcquireMode, TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.rpc.partition_errors import wire
from sharebroker_server.share_calls.values import (
    AcknowledgeCall,
    Acknowledged,
    AckPart,
    AcquireCall,
    Acquisition,
    Left,
    LeftReason,
    SettleCall,
    Settlement,
    SettlePart,
)


def acquire_request(call: AcquireCall) -> pb.AcquireRecordsRequest:
    """A fetch, to be sent."""
    return pb.AcquireRecordsRequest(
        group_id=call.group_id,
        member_id=call.member_id,
        partitions=_partitions(call.partitions),
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
    """A fetch, as received. Raises ValueError for a mode that there is not."""
    return AcquireCall(
        request.group_id,
        request.member_id,
        _places(request.partitions),
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


def await_request(
    group_id: str, partitions: Sequence[TopicIdPartition], max_wait: float
) -> pb.AwaitRecordsRequest:
    """A watch, to be sent; `max_wait` in seconds."""
    return pb.AwaitRecordsRequest(
        group_id=group_id, partitions=_partitions(partitions), max_wait_ms=round(max_wait * 1000)
    )


def awaited(request: pb.AwaitRecordsRequest) -> list[TopicIdPartition]:
    """The partitions of a watch, as received."""
    return _places(request.partitions)


def acquire_answers(acquisitions: Iterable[Acquisition]) -> list[pb.AcquireRecordsResponse.Partition]:
    """What a fetch gave, to be sent."""
    answers = []
    for one in acquisitions:
        answer = pb.AcquireRecordsResponse.Partition(
            topic_id=one.topic_id,
            partition=one.partition,
            error_code=wire(one.error_code),
            error_message=one.error_message,
            record_batches=one.records,
        )
        add_acquired(answer.acquired, one.acquired)
        answers.append(answer)
    return answers


def acquisitions(answers: Iterable[pb.AcquireRecordsResponse.Partition]) -> list[Acquisition]:
    """What a fetch gave, as received."""
    return [
        Acquisition(
            answer.topic_id,
            answer.partition,
            ErrorCode(answer.error_code),
            answer.error_message,
            answer.record_batches,
            acquired_values(answer.acquired),
        )
        for answer in answers
    ]


def add_acquired(target: Any, acquired: Iterable[AcquiredRange]) -> None:
    """Writes acquired runs into a repeated field of AcquiredRecords."""
    for run in acquired:
        target.add(
            first_offset=run.first,
            last_offset=run.last,
            delivery_count=run.delivery_count,
            lock_token=run.token,
            lock_deadline_ms=round(run.deadline * 1000),
        )


def acquired_values(acquired: Iterable[delivery.AcquiredRecords]) -> list[AcquiredRange]:
    """AcquiredRange runs, as received."""
    return [
        AcquiredRange(
            run.first_offset, run.last_offset, run.delivery_count, run.lock_token, run.lock_deadline_ms / 1000
        )
        for run in acquired
    ]


def acknowledge_request(call: AcknowledgeCall) -> pb.AcknowledgeRecordsRequest:
    """Acknowledgements, to be sent."""
    return pb.AcknowledgeRecordsRequest(
        group_id=call.group_id,
        member_id=call.member_id,
        renew_allowed=call.renew_allowed,
        partitions=[
            pb.AcknowledgeRecordsRequest.Partition(
                topic_id=part.topic_id,
                partition=part.partition,
                batches=_batch_messages(part.batches),
                delay_ms=round(part.delay * 1000),
            )
            for part in call.parts
        ],
    )


def acknowledge_call(request: pb.AcknowledgeRecordsRequest) -> AcknowledgeCall:
    """Acknowledgements, as received."""
    parts = [
        AckPart(part.topic_id, part.partition, _batches(part.batches), part.delay_ms / 1000)
        for part in request.partitions
    ]
    return AcknowledgeCall(request.group_id, request.member_id, parts, request.renew_allowed)


def acknowledge_answers(outcomes: Iterable[Acknowledged]) -> list[pb.AcknowledgeRecordsResponse.Partition]:
    """What became of acknowledgements, to be sent."""
    return [
        pb.AcknowledgeRecordsResponse.Partition(
            topic_id=one.topic_id,
            partition=one.partition,
            error_code=wire(one.error_code),
            error_message=one.error_message,
        )
        for one in outcomes
    ]


def acknowledged(answers: Iterable[pb.AcknowledgeRecordsResponse.Partition]) -> list[Acknowledged]:
    """What became of acknowledgements, as received."""
    return [
        Acknowledged(answer.topic_id, answer.partition, ErrorCode(answer.error_code), answer.error_message)
        for answer in answers
    ]


def settle_request(call: SettleCall) -> pb.SettleRecordsRequest:
    """A settlement, to be sent."""
    return pb.SettleRecordsRequest(
        group_id=call.group_id,
        member_id=call.member_id,
        renew_held=call.renew_held,
        topic_ids=call.topic_ids,
        partitions=[
            pb.SettleRecordsRequest.Partition(
                topic_id=part.topic_id,
                partition=part.partition,
                ranges=[
                    pb.SettleRecordsRequest.Range(
                        first_offset=first, last_offset=last, type=delivery.AcknowledgeType.ValueType(kind)
                    )
                    for first, last, (kind,), _ in part.batches
                ],
            )
            for part in call.parts
        ],
    )


def settle_call(request: pb.SettleRecordsRequest) -> SettleCall:
    """A settlement, as received."""
    parts = [
        SettlePart(
            part.topic_id,
            part.partition,
            [AckBatch(one.first_offset, one.last_offset, (one.type,)) for one in part.ranges],
        )
        for part in request.partitions
    ]
    return SettleCall(
        request.group_id, request.member_id, parts, request.renew_held, tuple(request.topic_ids)
    )


def settle_answers(settlements: Iterable[Settlement]) -> list[pb.SettleRecordsResponse.Partition]:
    """What became of what was settled, to be sent."""
    answers = []
    for one in settlements:
        answer = pb.SettleRecordsResponse.Partition(
            topic_id=one.topic_id,
            partition=one.partition,
            error_code=wire(one.error_code),
            error_message=one.error_message,
        )
        for first, last, reason in one.left:
            answer.left.add(
                first_offset=first, last_offset=last, reason=delivery.LeftReason.ValueType(reason)
            )
        add_acquired(answer.held, one.held)
        answers.append(answer)
    return answers


def settlements(answers: Iterable[pb.SettleRecordsResponse.Partition]) -> list[Settlement]:
    """What became of what was settled, as received."""
    return [
        Settlement(
            answer.topic_id,
            answer.partition,
            ErrorCode(answer.error_code),
            answer.error_message,
            [Left(one.first_offset, one.last_offset, LeftReason(one.reason)) for one in answer.left],
            acquired_values(answer.held),
        )
        for answer in answers
    ]


def _batch_messages(batches: Sequence[AckBatch]) -> list[pb.AcknowledgeRecordsRequest.Batch]:
    return [
        pb.AcknowledgeRecordsRequest.Batch(
            first_offset=batch.first,
            last_offset=batch.last,
            acknowledge_types=batch.types,
            lock_token=batch.token or 0,
        )
        for batch in batches
    ]


def _batches(batches: Iterable[pb.AcknowledgeRecordsRequest.Batch]) -> list[AckBatch]:
    return [
        AckBatch(
            batch.first_offset, batch.last_offset, tuple(batch.acknowledge_types), batch.lock_token or None
        )
        for batch in batches
    ]


def _partitions(partitions: Iterable[TopicIdPartition]) -> list[delivery.TopicPartition]:
    return [delivery.TopicPartition(topic_id=t, partition=p) for t, p in partitions]


def _places(partitions: Iterable[delivery.TopicPartition]) -> list[TopicIdPartition]:
    return [TopicIdPartition(part.topic_id, part.partition) for part in partitions]
