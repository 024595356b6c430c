"""Record batches (magic 2): compression and building for producers, decoding of deliveries for consumers.

Compression uses the framings that Kafka's clients read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import cramjam
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from crc32c import crc32c

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.records.record import AcknowledgeType, AcquiredRecords, RawRecord, Record

_XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
# Magic; version 1 with independent blocks (Kafka rejects linked blocks); 64 KiB blocks; header checksum.
_LZ4_HEADER: Final = bytes.fromhex("04224d18 60 40 82")
_LZ4_BLOCK: Final = 64 * 1024
_LZ4_STORED: Final = 0x8000_0000
_LZ4_END: Final = b"\x00\x00\x00\x00"


def _blocks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def gzip(data: bytes) -> bytes:
    """Compresses with gzip at level 6, Kafka's default."""
    return bytes(cramjam.gzip.compress(data, 6))


def snappy(data: bytes) -> bytes:
    """Compresses with Snappy in the xerial framing that Kafka's Java clients write."""
    parts = [_XERIAL_HEADER]
    for block in _blocks(data, _XERIAL_BLOCK):
        packed = bytes(cramjam.snappy.compress_raw(block))
        parts += (struct.pack(">i", len(packed)), packed)
    return b"".join(parts)


def lz4(data: bytes) -> bytes:
    """Compresses into an LZ4 frame with independent blocks."""
    parts = [_LZ4_HEADER]
    for block in _blocks(data, _LZ4_BLOCK):
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            parts += (struct.pack("<I", len(packed)), packed)
        else:
            parts += (struct.pack("<I", len(block) | _LZ4_STORED), block)
    parts.append(_LZ4_END)
    return b"".join(parts)


def zstd(data: bytes) -> bytes:
    """Compresses into a Zstandard frame at level 3, Kafka's default."""
    return bytes(cramjam.zstd.compress(data, 3))


@dataclass(frozen=True, slots=True)
class CompressionCodec:
    """A compression codec: its number in the batch attributes, and its compression function."""

    number: int
    compress: Callable[[bytes], bytes]


CODECS: Final[Mapping[str, CompressionCodec]] = {
    "none": CompressionCodec(0, bytes),
    "gzip": CompressionCodec(1, gzip),
    "snappy": CompressionCodec(2, snappy),
    "lz4": CompressionCodec(3, lz4),
    "zstd": CompressionCodec(4, zstd),
}
"""Codecs by the values of Kafka's `compression.type`."""


Header = tuple[str, bytes | None]

HEADER_BYTES: Final = 61
_LENGTH_AT: Final = 8
_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_PRODUCER_AT: Final = 43
_PRODUCER: Final = struct.Struct(">qhi")
NO_PRODUCER: Final = (-1, -1, -1)
"""Producer id, epoch and sequence number of a batch without a producer."""
_AFTER_LENGTH: Final = 12


class BatchBuilder:
    """Collects records of one partition and builds one batch from them.

    `batch_size` (`batch.size`, bytes before compression) is a soft limit: a larger record gets a batch
    of its own.
    """

    __slots__ = ("_builder", "_codec", "count")

    def __init__(self, codec: CompressionCodec, batch_size: int) -> None:
        # Compression happens below, because aiokafka's lz4 is a hundred times slower than the codec.
        self._builder = DefaultRecordBatchBuilder(2, 0, 0, *NO_PRODUCER, batch_size)
        self._codec = codec
        self.count = 0

    def append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
    ) -> bool:
        """Adds a record; returns False and adds nothing if the batch is full."""
        if self._builder.append(self.count, timestamp_ms, key, value, [*headers]) is None:
            return False
        self.count += 1
        return True

    @property
    def size(self) -> int:
        """Size in bytes so far, before compression."""
        return int(self._builder.size())

    def build(self, producer: tuple[int, int, int] = NO_PRODUCER) -> bytes:
        """Returns the finished batch, with base offset 0. The builder cannot be used afterwards.

        `producer` has the producer id, the epoch, and the sequence number of the first record.
        """
        self._builder.set_producer_state(*producer)
        plain = bytes(self._builder.build())
        return plain if self._codec.number == 0 else _compressed(plain, self._codec)


def _compressed(plain: bytes, codec: CompressionCodec) -> bytes:
    """Returns `plain` with compressed records and an adjusted header (length, attributes, CRC)."""
    records = codec.compress(plain[HEADER_BYTES:])
    batch = bytearray(plain[:HEADER_BYTES]) + records
    struct.pack_into(">i", batch, _LENGTH_AT, len(batch) - _AFTER_LENGTH)
    (attributes,) = struct.unpack_from(">h", batch, _ATTRIBUTES_AT)
    struct.pack_into(">h", batch, _ATTRIBUTES_AT, attributes | codec.number)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
    return bytes(batch)


def with_producer(batch: bytes, producer_id: int, epoch: int, sequence: int) -> bytes:
    """Returns a batch with a producer's id and epoch, and the sequence number of its first record."""
    numbered = bytearray(batch)
    _PRODUCER.pack_into(numbered, _PRODUCER_AT, producer_id, epoch, sequence)
    struct.pack_into(">I", numbered, _CRC_AT, crc32c(memoryview(numbered)[_ATTRIBUTES_AT:]))
    return bytes(numbered)


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

    acquisition: AcquiredRecords
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


def decode(data: bytes, acquisitions: Sequence[AcquiredRecords]) -> Decoded:
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


def stored_records(data: bytes, first: int, last: int) -> Iterator[RawRecord]:
    """Yields the records first..last (inclusive) of `data` (whole batches), without transaction markers.

    Raises KafkaError CORRUPT_MESSAGE for a batch that is incomplete, damaged, or cannot be decoded.
    """
    damaged: list[_Span] = []
    for batch, content in _batches(data, damaged):
        if batch.next_offset > first and batch.base_offset <= last and not batch.is_control_batch:
            yield from (record for record in _all_of(batch, content) if first <= record.offset <= last)
    if damaged:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"The batch at offset {damaged[0].first} is incomplete.")


def _all_of(batch: DefaultRecordBatch, content: memoryview) -> list[RawRecord]:
    place = f"The batch at offset {batch.base_offset}"
    if crc32c(content[_CRC_COVERS_FROM:]) != batch.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{place} has a wrong checksum.")
    try:
        return list(batch)
    except Exception as failure:  # decoders and codecs raise arbitrary exceptions on invalid bytes
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{place} cannot be decoded: {failure}.") from failure


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
    batch: DefaultRecordBatch, content: memoryview, overlapping: list[AcquiredRecords], into: list[Record]
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


def _pick(batch: DefaultRecordBatch, overlapping: list[AcquiredRecords], into: list[Record]) -> None:
    remaining = iter(overlapping)
    acquisition: AcquiredRecords | None = next(remaining)
    for raw in batch:
        while acquisition is not None and raw.offset > acquisition.last:
            acquisition = next(remaining, None)
        if acquisition is None:
            continue  # continue to the end, where the decoder checks the batch's length
        if raw.offset >= acquisition.first:
            into.append(Record(raw, acquisition))


def _account(acquisitions: Sequence[AcquiredRecords], decoded: Decoded, damaged: list[_Span]) -> None:
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
    acquisition: AcquiredRecords, first: int, last: int, damaged: list[_Span], into: list[Unreadable]
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
