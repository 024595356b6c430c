"""Translates the calls to messages of sharebroker.share_partition_leader.v1 and back.

Fields of equal name are converted by schema (`proto_values`); the mappings list the others. Times are seconds
in values and milliseconds in messages. The output of a delivery stream is written without a schema: gateways
write it into every message of a Consume stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

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
    LettersCall,
    LettersResult,
    LostRange,
    Problem,
    ReconcileCall,
    ReconcileResult,
    StreamAckResult,
    Unreconciled,
    UnreconciledReason,
)
from sharebroker_server.proto_values import Conversion, Mapped

V = TypeVar("V", bound=tuple[Any, ...])
M = TypeVar("M", bound=Message)
A = TypeVar("A")
B = TypeVar("B")


def _ms(name: str) -> Mapped:
    return Mapped(name, encode=lambda seconds: round(seconds * 1000), decode=lambda ms: ms / 1000)


_MAPPED: Final[Mapping[str, Mapped | str]] = {
    "deadline": _ms("lock_deadline_ms"),
    "delay": _ms("delay_ms"),
    "error_code": Mapped(decode=ErrorCode),
    "first": "first_offset",
    "last": "last_offset",
    "lock": _ms("lock_ms"),
    "lock_deadline": _ms("lock_deadline_ms"),
    "log_append_time": "log_append_time_ms",
    "max_wait": _ms("max_wait_ms"),
    "mode": Mapped("acquire_mode", decode=AcquireMode),
    "records": "record_batches",
    "token": "lock_token",
    "topic_ids": Mapped(decode=tuple),
}
"""Fields that differ in the same way in all messages."""


def _conversion(value: type[V], message: type[M], **mapped: Mapped | str) -> Conversion[V, M]:
    return Conversion(value, message, {**_MAPPED, **mapped})


_PARTITION = _conversion(TopicIdPartition, delivery.TopicPartition)
_RANGE = _conversion(AcquiredRange, delivery.AcquiredRecords)
_ACQUIRE = _conversion(AcquireCall, pb.AcquireRecordsRequest, partitions=Mapped(nested=_PARTITION))
_ACQUIRED = _conversion(AcquireResult, pb.AcquireRecordsResponse.Partition, acquired=Mapped(nested=_RANGE))
_ACK_BATCH = _conversion(
    AckBatch,
    pb.AcknowledgeRecordsRequest.Batch,
    types=Mapped("acknowledge_types", decode=tuple),
    token=Mapped("lock_token", encode=lambda token: token or 0, decode=lambda token: token or None),
)
_ACK_PART = _conversion(AckPart, pb.AcknowledgeRecordsRequest.Partition, batches=Mapped(nested=_ACK_BATCH))
_ACKNOWLEDGE = _conversion(
    AcknowledgeCall, pb.AcknowledgeRecordsRequest, parts=Mapped("partitions", nested=_ACK_PART)
)
_ACK_RESULT = _conversion(AckResult, pb.AcknowledgeRecordsResponse.Partition)
_TYPED_RANGE = _conversion(
    AckBatch,
    pb.ReconcileRecordsRequest.Range,
    types=Mapped("type", encode=lambda types: types[0], decode=lambda ack_type: (ack_type,)),
)
_RECONCILED_PART = _conversion(
    AckPart, pb.ReconcileRecordsRequest.Partition, batches=Mapped("ranges", nested=_TYPED_RANGE)
)
_RECONCILE = _conversion(
    ReconcileCall, pb.ReconcileRecordsRequest, parts=Mapped("partitions", nested=_RECONCILED_PART)
)
_UNRECONCILED = _conversion(Unreconciled, delivery.LeftRange, reason=Mapped(decode=UnreconciledReason))
_RECONCILED = _conversion(
    ReconcileResult,
    pb.ReconcileRecordsResponse.Partition,
    left=Mapped(nested=_UNRECONCILED),
    held=Mapped(nested=_RANGE),
)
_APPEND_PART = _conversion(AppendPart, pb.ProduceRequest.Partition)
_APPEND = _conversion(AppendCall, pb.ProduceRequest, parts=Mapped("partitions", nested=_APPEND_PART))
_APPENDED = _conversion(AppendResult, pb.ProduceResponse.Partition, offsets=Mapped(decode=tuple))
_LETTERS = _conversion(
    LettersCall,
    pb.AppendDeadLettersRequest,
    records="record_batch",
    source_offsets=Mapped(decode=tuple),
    still_archiving=Mapped(
        encode=lambda ranges: [
            pb.AppendDeadLettersRequest.OffsetRange(first_offset=first, last_offset=last)
            for first, last in ranges
        ],
        decode=lambda ranges: tuple((each.first_offset, each.last_offset) for each in ranges),
    ),
)
_LETTERS_RESULT = _conversion(LettersResult, pb.AppendDeadLettersResponse)
_OPEN = _conversion(DeliverOpen, pb.DeliverRequest.Open)
_DELIVERY = _conversion(Delivery, delivery.Delivery, acquired=Mapped(nested=_RANGE))
_STREAM_RESULT = _conversion(StreamAckResult, delivery.AcknowledgementResult)
_LOST = _conversion(LostRange, delivery.LockLost)
_PROBLEM = _conversion(Problem, pb.DeliverResponse.Problem)


def _all(convert: Callable[[A], B]) -> Callable[[Iterable[A]], list[B]]:
    return lambda items: list(map(convert, items))


partition_messages, partition_keys = _all(_PARTITION.message), _all(_PARTITION.value)
acquire_request, acquire_call = _ACQUIRE.message, _ACQUIRE.value
acquire_response, acquire_results = _all(_ACQUIRED.message), _all(_ACQUIRED.value)
acknowledge_request, acknowledge_call = _ACKNOWLEDGE.message, _ACKNOWLEDGE.value
acknowledge_response, ack_results = _all(_ACK_RESULT.message), _all(_ACK_RESULT.value)
reconcile_request, reconcile_call = _RECONCILE.message, _RECONCILE.value
reconcile_response, reconcile_results = _all(_RECONCILED.message), _all(_RECONCILED.value)
produce_request, append_call = _APPEND.message, _APPEND.value
produce_response, append_results = _all(_APPENDED.message), _all(_APPENDED.value)
letters_request, letters_call = _LETTERS.message, _LETTERS.value
letters_response, letters_result = _LETTERS_RESULT.message, _LETTERS_RESULT.value
open_message, deliver_open = _OPEN.message, _OPEN.value


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
        list(map(_DELIVERY.value, response.deliveries)),
        list(map(_STREAM_RESULT.value, response.results)),
        list(map(_LOST.value, response.lock_lost)),
        list(map(_PROBLEM.value, response.problems)),
    )


def release_request(
    group_id: str, member_id: str, principal: str, partitions: Iterable[TopicIdPartition], session_id: str
) -> pb.ReleaseMemberRequest:
    """Encodes the release of the records that a principal acquired as a member.

    With `session_id`, only those that the share session acquired.
    """
    return pb.ReleaseMemberRequest(
        group_id=group_id,
        member_id=member_id,
        partitions=partition_messages(partitions),
        session_id=session_id,
        principal=principal,
    )


def await_request(
    group_id: str, partitions: Sequence[TopicIdPartition], max_wait: float
) -> pb.AwaitRecordsRequest:
    """Encodes a watch; `max_wait` in seconds."""
    return pb.AwaitRecordsRequest(
        group_id=group_id, partitions=partition_messages(partitions), max_wait_ms=round(max_wait * 1000)
    )


_SPLIT_BYTES: Final = 8 << 20
"""Bytes of records in one Produce request to a leader; a larger batch is sent alone."""


def split_by_size(parts: Sequence[AppendPart], limit: int = _SPLIT_BYTES) -> list[Sequence[AppendPart]]:
    """Returns the parts in order, in groups of at most `limit` bytes of records; a larger part is alone."""
    groups: list[list[AppendPart]] = []
    remaining = 0
    for part in parts:
        if len(part.records) > remaining or not groups:
            groups.append([])
            remaining = limit
        groups[-1].append(part)
        remaining -= len(part.records)
    return list(groups)
