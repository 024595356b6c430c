"""Decodes record batches to single records, for clients that do not decode them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.model import AckBatch, AcquiredRange
from sharebroker_protocol.records import record as records
from sharebroker_protocol.records.batches import Unreadable, decode
from sharebroker_protocol.records.record import AcknowledgementSink, Record
from sharebroker_server.leader_calls.values import AckPart, AcquireResult

OWN_ID: Final = 2**64 - 1
"""Id of acknowledgements that the gateway sends for offsets without a readable record."""

_GAP: Final = delivery.ACKNOWLEDGE_TYPE_GAP

# A record that leaves as a message is not acknowledged through its object.
_NO_SINK: Final = cast("AcknowledgementSink", None)


def decoded(
    source: AcquireResult, topic: str, *, as_text: bool
) -> tuple[list[pb.ShareRecord], list[delivery.Acknowledgement]]:
    """The records, and acknowledgements of the acquired offsets without a readable record."""
    runs = [_acquired(source, topic, run) for run in source.acquired]
    found = decode(source.records, runs)
    return (
        [_share_record(record, as_text=as_text) for record in found.records],
        [_unreadable(gap) for gap in found.unreadable],
    )


def ack_parts(unreadable: Iterable[delivery.Acknowledgement]) -> list[AckPart]:
    """The same acknowledgements as parts of a call; a gap has Kafka's number there."""
    return [
        AckPart(
            gap.topic_id,
            gap.partition,
            [AckBatch(gap.first_offset, gap.last_offset, (0 if gap.type == _GAP else gap.type,))],
        )
        for gap in unreadable
    ]


def _acquired(source: AcquireResult, topic: str, run: AcquiredRange) -> records.AcquiredRecords:
    acquisition = records.AcquiredRecords(
        (source.topic_id, topic), source.partition, (run.first, run.last), _NO_SINK
    )
    acquisition.delivery_count = run.delivery_count
    acquisition.token = run.token
    acquisition.deadline = run.deadline
    return acquisition


def _share_record(record: Record, *, as_text: bool) -> pb.ShareRecord:
    acquisition = record.acquisition
    message = pb.ShareRecord(
        topic=acquisition.topic,
        topic_id=acquisition.topic_id,
        partition=acquisition.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        key=record.key,
        headers=[pb.RecordHeader(key=key, value=value or b"") for key, value in record.headers],
        delivery_count=acquisition.delivery_count,
        lock_token=acquisition.token,
        lock_deadline_ms=round(acquisition.deadline * 1000),
    )
    if record.value is not None:
        _set_payload(message, bytes(record.value), as_text=as_text)
    return message


def _set_payload(message: pb.ShareRecord, value: bytes, *, as_text: bool) -> None:
    if as_text:
        try:
            message.text = value.decode()
        except UnicodeDecodeError:
            message.value = value
    else:
        message.value = value


def _unreadable(gap: Unreadable) -> delivery.Acknowledgement:
    return delivery.Acknowledgement(
        id=OWN_ID,
        topic_id=gap.acquisition.topic_id,
        partition=gap.acquisition.partition,
        first_offset=gap.first,
        last_offset=gap.last,
        type=int(gap.kind),  # type: ignore[arg-type]  # the enum's numbers are Kafka's
        lock_token=gap.acquisition.token,
    )
