"""Translates the calls to messages of sharebroker.share_partition_leader.v1 and back.

A schema pairs a named tuple with the message that has the same fields; it lists those that differ in name or
type. Times are seconds in values and milliseconds in messages. The output of a delivery stream is written
without a schema: gateways write it into every message of a Consume stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

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

V = TypeVar("V", bound=tuple[Any, ...])
M = TypeVar("M")


class _Field(NamedTuple):
    """A field whose name or type in the message differs; `encode` and `decode` convert its value."""

    name: str
    encode: Callable[[Any], Any] | None = None
    decode: Callable[[Any], Any] | None = None


def _ms(name: str) -> _Field:
    return _Field(name, lambda seconds: round(seconds * 1000), lambda ms: ms / 1000)


_FIELDS: Final = {
    "deadline": _ms("lock_deadline_ms"),
    "delay": _ms("delay_ms"),
    "error_code": _Field("error_code", decode=ErrorCode),
    "first": _Field("first_offset"),
    "last": _Field("last_offset"),
    "lock_deadline": _ms("lock_deadline_ms"),
    "log_append_time": _Field("log_append_time_ms"),
    "max_wait": _ms("max_wait_ms"),
    "mode": _Field("acquire_mode", decode=AcquireMode),
    "reason": _Field("reason", decode=LeftReason),
    "records": _Field("record_batches"),
    "token": _Field("lock_token"),
    "topic_ids": _Field("topic_ids", decode=tuple),
}
"""Fields that differ in the same way in every message."""


class _Schema(Generic[V, M]):
    """Converts a named tuple to a message and back. `omitted` fields, the last ones, keep their defaults.

    `fields` returns the fields of a value's message; `decode` returns the value of a message and raises
    ValueError for an unknown number of an enumeration. Both are compiled, because they run for each range.
    """

    def __init__(
        self, value: type[V], message: Callable[..., M], *, omitted: Sequence[str] = (), **differing: _Field
    ) -> None:
        differing = {**_FIELDS, **differing}
        names = [name for name in cast("Any", value)._fields if name not in omitted]
        fields = [(i, *differing.get(name, _Field(name))) for i, name in enumerate(names)]
        encoded = [f"encode[{i}](value[{i}])" if encode else f"value[{i}]" for i, _, encode, _ in fields]
        items = ", ".join(f"'{field[1]}': {code}" for field, code in zip(fields, encoded, strict=True))
        read = [f"decode[{i}](message.{key})" if decode else f"message.{key}" for i, key, _, decode in fields]
        _, _, encoders, decoders = zip(*fields, strict=True)
        namespace = {"make": value, "encode": encoders, "decode": decoders}
        self.fields: Callable[[V], dict[str, Any]] = eval(f"lambda value: {{{items}}}", namespace)
        self.decode: Callable[[Any], V] = eval(f"lambda message: make({', '.join(read)})", namespace)
        self._message = message

    def encode(self, value: V) -> M:
        """Returns the message."""
        return self._message(**self.fields(value))

    def encode_all(self, values: Iterable[V]) -> list[M]:
        """Returns a message for each value."""
        return list(map(self.encode, values))

    def decode_all(self, messages: Iterable[Any]) -> list[V]:
        """Returns the value of each message."""
        return list(map(self.decode, messages))

    def repeated(self, name: str) -> _Field:
        """Returns a repeated field of such messages."""
        return _Field(name, lambda values: list(map(self.fields, values)), self.decode_all)


_PARTITION = _Schema(TopicIdPartition, delivery.TopicPartition)
_RANGE = _Schema(AcquiredRange, delivery.AcquiredRecords)
_ACQUIRE = _Schema(AcquireCall, pb.AcquireRecordsRequest, partitions=_PARTITION.repeated("partitions"))
_ACQUIRED = _Schema(AcquireResult, pb.AcquireRecordsResponse.Partition, acquired=_RANGE.repeated("acquired"))
_ACK_BATCH = _Schema(
    AckBatch,
    pb.AcknowledgeRecordsRequest.Batch,
    types=_Field("acknowledge_types", decode=tuple),
    token=_Field("lock_token", lambda token: token or 0, lambda token: token or None),
)
_ACK_PART = _Schema(AckPart, pb.AcknowledgeRecordsRequest.Partition, batches=_ACK_BATCH.repeated("batches"))
_ACKNOWLEDGE = _Schema(AcknowledgeCall, pb.AcknowledgeRecordsRequest, parts=_ACK_PART.repeated("partitions"))
_ACK_RESULT = _Schema(AckResult, pb.AcknowledgeRecordsResponse.Partition)
_TYPED_RANGE = _Schema(
    AckBatch,
    pb.SettleRecordsRequest.Range,
    omitted=("token",),
    types=_Field("type", lambda types: types[0], lambda ack_type: (ack_type,)),
)
_RECONCILED_PART = _Schema(
    AckPart, pb.SettleRecordsRequest.Partition, omitted=("delay",), batches=_TYPED_RANGE.repeated("ranges")
)
_RECONCILE = _Schema(ReconcileCall, pb.SettleRecordsRequest, parts=_RECONCILED_PART.repeated("partitions"))
_LEFT = _Schema(Left, delivery.LeftRange)
_RECONCILED = _Schema(
    ReconcileResult,
    pb.SettleRecordsResponse.Partition,
    left=_LEFT.repeated("left"),
    held=_RANGE.repeated("held"),
)
_APPEND_PART = _Schema(AppendPart, pb.ProduceRequest.Partition)
_APPEND = _Schema(AppendCall, pb.ProduceRequest, parts=_APPEND_PART.repeated("partitions"))
_APPENDED = _Schema(AppendResult, pb.ProduceResponse.Partition)
_OPEN = _Schema(DeliverOpen, pb.DeliverRequest.Open)
_DELIVERY = _Schema(Delivery, delivery.Delivery, acquired=_RANGE.repeated("acquired"))
_STREAM_RESULT = _Schema(StreamAckResult, delivery.AcknowledgementResult)
_LOST = _Schema(LostRange, delivery.LockLost)
_PROBLEM = _Schema(Problem, pb.DeliverResponse.Problem)

partition_messages, partition_keys = _PARTITION.encode_all, _PARTITION.decode_all
acquire_request, acquire_call = _ACQUIRE.encode, _ACQUIRE.decode
acquire_response, acquire_results = _ACQUIRED.encode_all, _ACQUIRED.decode_all
acknowledge_request, acknowledge_call = _ACKNOWLEDGE.encode, _ACKNOWLEDGE.decode
acknowledge_response, ack_results = _ACK_RESULT.encode_all, _ACK_RESULT.decode_all
reconcile_request, reconcile_call = _RECONCILE.encode, _RECONCILE.decode
reconcile_response, reconcile_results = _RECONCILED.encode_all, _RECONCILED.decode_all
produce_request, append_call = _APPEND.encode, _APPEND.decode
produce_response, append_results = _APPENDED.encode_all, _APPENDED.decode_all
open_message, deliver_open = _OPEN.encode, _OPEN.decode


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
        _DELIVERY.decode_all(response.deliveries),
        _STREAM_RESULT.decode_all(response.results),
        _LOST.decode_all(response.lock_lost),
        _PROBLEM.decode_all(response.problems),
    )


def await_request(
    group_id: str, partitions: Sequence[TopicIdPartition], max_wait: float
) -> pb.AwaitRecordsRequest:
    """Encodes a watch; `max_wait` in seconds."""
    return pb.AwaitRecordsRequest(
        group_id=group_id, partitions=partition_messages(partitions), max_wait_ms=round(max_wait * 1000)
    )
