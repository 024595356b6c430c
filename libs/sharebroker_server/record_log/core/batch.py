"""Record batches (RecordBatch v2, magic 2): validates headers, assigns offsets.

A batch remains the same bytes from producer to consumer. Base offset and partition leader epoch are outside
the CRC and are overwritten when offsets are assigned. Multi-byte fields are big-endian; timestamps are
milliseconds since the Unix epoch, -1 for none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from aiokafka.record.default_records import DefaultRecordBatch
from crc32c import crc32c

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.records.sequences import sequence_after

Buffer: TypeAlias = bytes | memoryview

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PREFIX: Final = struct.Struct(">qii")
_TIMESTAMP_PATCH: Final = struct.Struct(">hiqq")
_CRC: Final = struct.Struct(">I")

HEADER_SIZE: Final = _HEADER.size
LENGTH_STARTS: Final = 12  # batchLength counts the bytes after itself
_EPOCH_ENDS: Final = _PREFIX.size
_CRC_AT: Final = 17
_CRC_COVERS_FROM: Final = 21
LEADER_EPOCH: Final = 0
"""The partition leader epoch of every batch.

Consumers compare it with the leader epochs in metadata responses, which are not lease epochs. After a batch
with a higher epoch than those, a consumer would wait indefinitely. No log is ever truncated at its end, so
one constant epoch is sufficient.
"""

SMALLEST_RECORD: Final = 7
"""The bytes of a record without key, value and headers."""

_CODEC_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
_KNOWN_CODECS: Final = frozenset(range(5))  # none, gzip, snappy, lz4, zstd


class BatchHeader(NamedTuple):
    """The header of one batch, field by field as on the wire."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes, including the header."""
        return self.length + LENGTH_STARTS

    @property
    def last_offset(self) -> int:
        """The offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        """The compression: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & _CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        """Whether every record has `max_timestamp` as its timestamp."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Whether the batch is a transaction marker, or has state of share groups."""
        return bool(self.attributes & CONTROL)


class StoredBatch(NamedTuple):
    """One batch with assigned offsets.

    `data` is what consumers receive. `control` marks a batch without records of producers: a transaction
    marker, or state of share groups.
    """

    base_offset: int
    last_offset: int
    data: bytes
    max_timestamp: int
    control: bool = False

    @property
    def has_share_state(self) -> bool:
        """Whether the batch has state of share groups, and is not for readers: no producer wrote it."""
        return self.control and header_of(self.data).producer_id < 0

    @classmethod
    def from_bytes(cls, data: bytes) -> StoredBatch:
        """Returns a stored batch, without checks; it was checked when it was appended."""
        header = header_of(data)
        return cls(header.base_offset, header.last_offset, data, header.max_timestamp, header.control)


class TimedOffset(NamedTuple):
    """A record's offset and timestamp (ms)."""

    offset: int
    timestamp: int


def gaps(batches: Iterable[StoredBatch], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields the first and last offset of each range in [start, end) that no batch contains."""
    for batch in batches:
        if start < batch.base_offset:
            yield start, batch.base_offset - 1
        start = batch.last_offset + 1
    if start < end:
        yield start, end - 1


def header_of(data: Buffer, position: int = 0) -> BatchHeader:
    """Returns the header at `position`, unchecked; `data` must have HEADER_SIZE bytes from there."""
    return BatchHeader._make(_HEADER.unpack_from(data, position))


def first_since(batch: StoredBatch, start: int, timestamp: int) -> TimedOffset | None:
    """Returns the first record from `start` on with `timestamp` or later, in a batch that contains one.

    Returns the batch's first record if its records cannot be read: an earlier offset loses nothing.
    """
    header = header_of(batch.data)
    first = max(batch.base_offset, start)
    if header.log_append_time:
        return TimedOffset(first, batch.max_timestamp)
    if header.base_timestamp >= timestamp and first == batch.base_offset:
        return TimedOffset(first, header.base_timestamp)
    try:
        found = (record for record in DefaultRecordBatch(batch.data) if record.timestamp >= timestamp)
        return next((TimedOffset(r.offset, r.timestamp) for r in found if r.offset >= first), None)
    except Exception:  # each codec has its own errors, and a producer may have compressed anything
        return TimedOffset(first, header.base_timestamp)


def seal(header: BatchHeader, records: Buffer) -> bytes:
    """Returns the batch of a header and records, with the correct length and CRC."""
    length = HEADER_SIZE - LENGTH_STARTS + len(records)
    data = bytearray(_HEADER.pack(*header._replace(length=length, crc=0))) + records
    _CRC.pack_into(data, _CRC_AT, crc32c(memoryview(data)[_CRC_COVERS_FROM:]))
    return bytes(data)


def parse_headers(data: Buffer, max_message_bytes: int) -> list[BatchHeader]:
    """Returns the headers of the batches of one produce request for one partition, after checking them.

    `max_message_bytes` limits each batch (Kafka's max.message.bytes). The records inside are not read.

    Raises:
        KafkaError: CORRUPT_MESSAGE if bytes are missing, are left over or fail the CRC; MESSAGE_TOO_LARGE;
            UNSUPPORTED_COMPRESSION_TYPE; INVALID_RECORD for what a producer may not send: no batch, another
            magic, a base offset, no records, a wrong record count, control batches, LogAppendTime, a producer
            id without sequence, or several batches that are not consecutive batches of one producer.
    """
    headers = list(_checked(data, max_message_bytes))
    if not headers:
        raise KafkaError(ErrorCode.INVALID_RECORD, "The request contains no record batch.")
    for header, following in pairwise(headers):
        if not _continues(header, following):
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                "The batches of a request must have one producer and consecutive sequence numbers.",
            )
    return headers


def spanned(headers: Sequence[BatchHeader]) -> BatchHeader:
    """Returns the header of one batch with the records of all these consecutive batches of a producer.

    Only the fields of the producer, its sequence numbers and the last offset are meaningful.
    """
    if len(headers) == 1:
        return headers[0]
    count = sum(header.record_count for header in headers)
    return headers[0]._replace(last_offset_delta=count - 1, record_count=count)


def _continues(header: BatchHeader, following: BatchHeader) -> bool:
    """Returns whether a batch may follow another one in a request."""
    if header.producer_id < 0 and following.producer_id < 0:
        return True
    expected = sequence_after(header.base_sequence, header.record_count)
    return (
        following.producer_id == header.producer_id
        and following.producer_epoch == header.producer_epoch
        and following.transactional == header.transactional
        and following.base_sequence == expected
    )


def assign(
    data: Buffer,
    headers: Sequence[BatchHeader],
    base_offset: int,
    leader_epoch: int,
    log_append_ms: int | None = None,
) -> list[StoredBatch]:
    """Returns the checked batches with consecutive offsets from `base_offset`.

    With `log_append_ms` (message.timestamp.type=LogAppendTime), that becomes the timestamp of all records.
    """
    view = memoryview(data)
    position, batches = 0, []
    for header in headers:
        prefix, end = _PREFIX.pack(base_offset, header.length, leader_epoch), position + header.size
        stored = b"".join((prefix, view[position + _EPOCH_ENDS : end]))
        if log_append_ms is not None:
            stored = _with_log_append_time(stored, header, log_append_ms)
        time = header.max_timestamp if log_append_ms is None else log_append_ms
        batches.append(StoredBatch(base_offset, base_offset + header.last_offset_delta, stored, time))
        position = end
        base_offset += header.record_count
    return batches


def _checked(data: Buffer, max_message_bytes: int) -> Iterator[BatchHeader]:
    view = memoryview(data)
    position = 0
    while position < len(view):
        header = _read_header(view, position)
        end = position + header.size
        if end - position > max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"A batch of {header.size} bytes is larger than max.message.bytes {max_message_bytes}.",
            )
        _check_crc(view, position, header)
        _check_content(header)
        yield header
        position = end


def stored_batches(data: bytes) -> Iterator[StoredBatch]:
    """Yields the batches of a part of a log, with the offsets that they have there.

    Raises:
        KafkaError: CORRUPT_MESSAGE if bytes are missing or fail the CRC; INVALID_RECORD for another magic.
    """
    view = memoryview(data)
    position = 0
    while position < len(view):
        header = _read_header(view, position)
        _check_crc(view, position, header)
        yield StoredBatch.from_bytes(data[position : position + header.size])
        position += header.size


def _check_crc(view: memoryview, position: int, header: BatchHeader) -> None:
    if crc32c(view[position + _CRC_COVERS_FROM : position + header.size]) != header.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"The CRC of the batch at byte {position} is wrong.")


def _read_header(view: memoryview, position: int) -> BatchHeader:
    """Returns the header at `position` of a complete batch."""
    remaining = len(view) - position
    if remaining < HEADER_SIZE:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"The {remaining} bytes at byte {position} are too short for a batch."
        )
    header = header_of(view, position)
    # Check the magic byte first: in an older format the length has another meaning.
    if header.magic != 2:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"Record batches of magic {header.magic} are not accepted."
        )
    if not HEADER_SIZE <= header.size <= remaining:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"The batch at byte {position} declares {header.size} bytes, but {remaining} remain.",
        )
    return header


def _check_content(header: BatchHeader) -> None:
    if header.codec not in _KNOWN_CODECS:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Compression type {header.codec} is unknown."
        )
    reason = _rejection(header) or _producer_rejection(header)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_RECORD, reason)


def _rejection(header: BatchHeader) -> str | None:
    """Returns why the batch's type, offsets or record count are wrong, or None."""
    if header.control:
        return "Producers may not write control batches."
    if header.log_append_time:
        return "Producers may not set the timestamp type to LogAppendTime."
    if header.base_offset != 0:
        return f"The batch starts at offset {header.base_offset}, not 0."
    count, delta = header.record_count, header.last_offset_delta
    if count < 1:
        return f"The batch counts {count} records."
    if delta != count - 1:
        return f"The batch counts {count} records but ends at offset delta {delta}."
    if header.codec == 0 and count * SMALLEST_RECORD > header.size - HEADER_SIZE:
        return f"The batch counts {count} records, more than its {header.size} bytes can hold."
    return None


def _producer_rejection(header: BatchHeader) -> str | None:
    """Returns why the batch's producer id, epoch or sequence are wrong, or None."""
    if header.producer_id < 0:
        return "A transactional batch needs a producer id." if header.transactional else None
    if header.base_sequence < 0 or header.producer_epoch < 0:
        return f"Producer {header.producer_id} sent no sequence number or no epoch."
    return None


def _with_log_append_time(data: bytes, header: BatchHeader, now_ms: int) -> bytes:
    """Returns the batch with all timestamps set to `now_ms`; attributes and timestamps are inside the CRC."""
    patched = bytearray(data)
    attributes = header.attributes | _LOG_APPEND_TIME
    fields = (attributes, header.last_offset_delta, header.base_timestamp, now_ms)
    _TIMESTAMP_PATCH.pack_into(patched, _CRC_COVERS_FROM, *fields)
    _CRC.pack_into(patched, _CRC_AT, crc32c(memoryview(patched)[_CRC_COVERS_FROM:]))
    return bytes(patched)
