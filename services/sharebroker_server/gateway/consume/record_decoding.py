"""Decodes record batches to single records, for clients that do not decode them.

A compressed batch of a few KiB can decode to 16 MiB, so the bytes of a message are counted decoded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import takewhile
from typing import Final, NamedTuple, cast

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.model import AckBatch, AcquiredRange
from sharebroker_protocol.records import record as records
from sharebroker_protocol.records.batches import Unreadable, decode
from sharebroker_protocol.records.record import AcknowledgementSink, Record
from sharebroker_server.leader_calls.values import AckPart, AcquireResult
from sharebroker_server.record_log.core.batch import HEADER_SIZE, header_of

PORTION_BYTES: Final = (4 << 20) - (64 << 10)
"""Bytes of the decoded records of one message: gRPC clients accept messages of 4 MiB."""

_FIELD_BYTES: Final = 6
"""Bytes of the tag and the length of a record in its message, at most."""

_RECORDS_AT_ONCE: Final = 5_000
"""Records of batches that are searched in one turn of the event loop, and one batch beyond."""

OWN_ID: Final = 2**64 - 1
"""Id of acknowledgements that the gateway sends for offsets without a readable record."""

_GAP: Final = delivery.ACKNOWLEDGE_TYPE_GAP
_RELEASE: Final = delivery.ACKNOWLEDGE_TYPE_RELEASE
_LAST_OFFSET: Final = 2**63 - 1

# A record that leaves as a message is not acknowledged through its object.
_NO_SINK: Final = cast("AcknowledgementSink", None)


class DecodedPortion(NamedTuple):
    """Decoded records of one message.

    `unreadable` acknowledges acquired offsets without a readable record. `rest` is where the next portion
    begins: the index of its source and the offset; None after the last portion. `size` is in bytes.
    """

    records: list[pb.ShareRecord]
    unreadable: list[delivery.Acknowledgement]
    rest: tuple[int, int] | None = None
    size: int = 0


Source = tuple[AcquireResult, str]
"""What was acquired from a partition, and the name of its topic."""


async def portions(
    sources: Sequence[Source], *, as_text: bool, max_bytes: Callable[[], int] = lambda: PORTION_BYTES
) -> AsyncGenerator[DecodedPortion, None]:
    """Decodes batch by batch; yields portions of `max_bytes()` bytes, or of one larger record.

    Compressed batches may be far larger once decoded, so only one batch is decoded at a time.
    """
    portion, size, work = DecodedPortion([], []), 0, 0
    for index, (source, topic) in enumerate(sources):
        for batch in _batches(source):
            found = decode(batch.data, [_acquired(source, topic, run) for run in batch.acquired])
            gaps = [_unreadable(gap) for gap in found.unreadable]
            for record in found.records:
                message = _share_record(record, as_text=as_text)
                length = message.ByteSize() + _FIELD_BYTES
                if portion.records and size + length > max_bytes():
                    before = [gap for gap in gaps if gap.first_offset < record.offset]
                    portion.unreadable.extend(before)
                    gaps = gaps[len(before) :]
                    yield portion._replace(rest=(index, record.offset), size=size)
                    portion, size = DecodedPortion([], []), 0
                portion.records.append(message)
                size += length
            portion.unreadable.extend(gaps)
            work += batch.records
            if work >= _RECORDS_AT_ONCE:
                work = 0
                await asyncio.sleep(0)
    yield portion._replace(size=size)


async def first_portion(sources: Sequence[Source], *, as_text: bool) -> DecodedPortion:
    """The first portion; nothing behind it is decoded."""
    async with aclosing(portions(sources, as_text=as_text)) as decoded:
        return await anext(decoded)


def rest_parts(sources: Sequence[Source], rest: tuple[int, int] | None) -> list[AckPart]:
    """Releases of what was acquired from `rest` on, without delay; they do not count as deliveries."""
    if rest is None:
        return []
    index, offset = rest
    parts = []
    for position, (source, _) in enumerate(sources[index:]):
        runs = _clipped(source.acquired, offset if position == 0 else 0, _LAST_OFFSET)
        released = [AckBatch(run.first, run.last, (_RELEASE,), run.token) for run in runs]
        parts.append(AckPart(source.topic_id, source.partition, released, delay=0.0, blameless=True))
    return parts


class _Batch(NamedTuple):
    """One batch, the acquired ranges up to its end, and the number of records it must be searched for."""

    data: bytes
    acquired: list[AcquiredRange]
    records: int


def _batches(source: AcquireResult) -> Iterator[_Batch]:
    """The batches with acquired offsets; the last one includes all offsets and bytes that are left."""
    data, position, first = source.records, 0, 0
    runs = deque(source.acquired)
    while runs:
        end, last, records = len(data), _LAST_OFFSET, 0
        if len(data) - position >= HEADER_SIZE:
            header = header_of(data, position)
            records = header.record_count
            if HEADER_SIZE <= header.size < len(data) - position:
                end, last = position + header.size, header.last_offset
                following = header_of(data, end).base_offset if len(data) - end >= HEADER_SIZE else 0
                if header.base_offset < following:  # an invalid header must not cover further batches
                    last = min(last, following - 1)
        acquired = _clipped(runs, first, last)
        if acquired:
            yield _Batch(data[position:end], acquired, records)
        while runs and runs[0].last <= last:
            runs.popleft()
        position, first = end, max(first, last + 1)


def _clipped(runs: Iterable[AcquiredRange], first: int, last: int) -> list[AcquiredRange]:
    """The parts of the ascending ranges within first..last."""
    return [
        run._replace(first=max(run.first, first), last=min(run.last, last))
        for run in takewhile(lambda run: run.first <= last, runs)
        if run.last >= first
    ]


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
