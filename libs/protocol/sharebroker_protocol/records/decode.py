"""Decodes a delivery: acquired records, and acquired offsets without a record."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatch
from crc32c import crc32c

from sharebroker_protocol.records.record import AcknowledgeType, Acquisition, Record

_OVERHEAD: Final = 12  # base offset and length field, which the length does not include
_SMALLEST: Final = 61
_LAST_DELTA_AT: Final = 23
_LENGTH: Final = struct.Struct(">qi")
_CRC_COVERS_FROM: Final = 21
_LAST_DELTA: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Acquired offsets (`last` inclusive) without a decoded record, and how to acknowledge them.

    GAP: the log has no record (compacted, transaction marker). REJECT: the batch's checksum is wrong.
    RELEASE: the bytes are incomplete or use a compression that this client cannot decode; another client may.
    """

    acquisition: Acquisition
    first: int
    last: int
    kind: AcknowledgeType


@dataclass(slots=True)
class Decoded:
    """A decoded delivery: records in offset order, and offsets without a record."""

    records: list[Record] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Span:
    """Offsets that cannot be decoded, `last` inclusive."""

    first: int
    last: int
    kind: AcknowledgeType


def decode(data: bytes, acquisitions: Sequence[Acquisition]) -> Decoded:
    """Decodes the records of `data` (whole batches) within `acquisitions`; both ascend."""
    decoded = Decoded()
    damaged: list[_Span] = []
    position = 0  # index into acquisitions; both sequences ascend
    for batch, content in _batches(data, damaged):
        first, end = batch.base_offset, batch.next_offset
        while position < len(acquisitions) and acquisitions[position].last < first:
            position += 1
        overlapping = [a for a in acquisitions[position:] if a.first < end]
        if overlapping and not batch.is_control_batch:
            damage = _read(batch, content, overlapping, decoded.records)
            if damage is not None:
                damaged.append(_Span(first, end - 1, damage))
    _account(acquisitions, decoded, damaged)
    return decoded


def _batches(data: bytes, damaged: list[_Span]) -> Iterator[tuple[DefaultRecordBatch, memoryview]]:
    """Yields batches and their bytes; everything after an incomplete or invalid batch is damaged."""
    view = memoryview(data)
    position, next_offset = 0, 0
    while position < len(data):
        if len(data) - position >= _SMALLEST:
            base, length = _LENGTH.unpack_from(data, position)
            end = position + _OVERHEAD + length
            if length >= _SMALLEST - _OVERHEAD and end <= len(data):
                next_offset = base + _LAST_DELTA.unpack_from(data, position + _LAST_DELTA_AT)[0] + 1
                content = view[position:end]
                yield DefaultRecordBatch(content), content
                position = end
                continue
        damaged.append(_Span(next_offset, 2**63 - 1, AcknowledgeType.RELEASE))
        return


def _read(
    batch: DefaultRecordBatch, content: memoryview, overlapping: list[Acquisition], into: list[Record]
) -> AcknowledgeType | None:
    """Appends the wanted records of `batch`, or returns how to acknowledge an undecodable batch."""
    if crc32c(content[_CRC_COVERS_FROM:]) != batch.crc:
        return AcknowledgeType.REJECT
    start = len(into)
    try:
        if (
            len(overlapping) == 1
            and overlapping[0].first <= batch.base_offset
            and batch.next_offset - 1 <= overlapping[0].last
        ):
            acquisition = overlapping[0]
            into += [Record(raw, acquisition) for raw in batch]
        else:
            _pick(batch, overlapping, into)
    except Exception:  # decoders and codecs raise arbitrary exceptions on invalid bytes
        del into[start:]
        return AcknowledgeType.RELEASE
    return None


def _pick(batch: DefaultRecordBatch, overlapping: list[Acquisition], into: list[Record]) -> None:
    remaining = iter(overlapping)
    acquisition: Acquisition | None = next(remaining)
    for raw in batch:
        while acquisition is not None and raw.offset > acquisition.last:
            acquisition = next(remaining, None)
        if acquisition is None:
            continue  # continue to the end, where the decoder checks the batch's length
        if raw.offset >= acquisition.first:
            into.append(Record(raw, acquisition))


def _account(acquisitions: Sequence[Acquisition], decoded: Decoded, damaged: list[_Span]) -> None:
    """Adds the acquired offsets without a record to `decoded.unreadable`."""
    records = decoded.records
    position = 0
    for acquisition in acquisitions:
        expected = acquisition.first
        while position < len(records) and records[position].offset <= acquisition.last:
            if len(records) - position > acquisition.last - expected and _run(
                records, position, expected, acquisition.last
            ):
                position += acquisition.last - expected + 1
                expected = acquisition.last + 1
                break
            offset = records[position].offset
            _missing(acquisition, expected, offset - 1, damaged, decoded.unreadable)
            expected = offset + 1
            position += 1
        _missing(acquisition, expected, acquisition.last, damaged, decoded.unreadable)


def _run(records: list[Record], position: int, first: int, last: int) -> bool:
    """Whether the records from `position` on are exactly the offsets first..last (offsets ascend)."""
    return records[position].offset == first and records[position + last - first].offset == last


def _missing(
    acquisition: Acquisition, first: int, last: int, damaged: list[_Span], into: list[Unreadable]
) -> None:
    """Splits first..last into damaged offsets and gaps."""
    for span in damaged:
        if span.first <= last and first <= min(span.last, last):
            if span.first > first:
                into.append(Unreadable(acquisition, first, span.first - 1, AcknowledgeType.GAP))
            until = min(span.last, last)
            into.append(Unreadable(acquisition, max(first, span.first), until, span.kind))
            first = until + 1
    if first <= last:
        into.append(Unreadable(acquisition, first, last, AcknowledgeType.GAP))
