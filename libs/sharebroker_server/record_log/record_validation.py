"""The settings of a log, and the validation of records before they are appended (Kafka: LogValidator).

A consumer that cannot read a batch cannot get past it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import cramjam
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.config.topic import TopicConfig
from sharebroker_server.record_log.core.batch import HEADER_SIZE, BatchHeader, Buffer, parse_headers, seal
from sharebroker_server.record_log.core.log_state import Limits, Retention

_NO_TIMESTAMP: Final = -1
_UNLIMITED: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TimestampBounds:
    """message.timestamp.before.max.ms and message.timestamp.after.max.ms."""

    before_max_ms: int = _UNLIMITED
    after_max_ms: int = 3_600_000

    def check(self, headers: Iterable[BatchHeader], now_ms: int) -> None:
        """Raises INVALID_TIMESTAMP if a timestamp is out of bounds.

        Batches are not unpacked: only the first and the newest timestamp of each are checked.
        """
        for header in headers:
            for time in (header.base_timestamp, header.max_timestamp):
                if time != _NO_TIMESTAMP and not -self.before_max_ms <= time - now_ms <= self.after_max_ms:
                    raise KafkaError(
                        ErrorCode.INVALID_TIMESTAMP,
                        f"The timestamp {time} is out of bounds: it may be at most {self.before_max_ms} "
                        "ms before "
                        f"and {self.after_max_ms} ms after the current time {now_ms}.",
                    )


@dataclass(frozen=True, slots=True)
class LogSettings:
    """A topic's configuration as far as it concerns the log, and the limits of this process.

    `log_append_time` is message.timestamp.type=LogAppendTime. `max_pending_bytes` limits the append queue,
    `max_group_bytes` one write to the store.
    """

    max_message_bytes: int = 1_048_588
    log_append_time: bool = False
    timestamp_bounds: TimestampBounds = field(default_factory=TimestampBounds)
    retention: Retention = field(default_factory=Retention)
    limits: Limits = field(default_factory=Limits)
    max_pending_bytes: int = 32 << 20
    max_group_bytes: int = 4 << 20

    @classmethod
    def of_topic(cls, topic: TopicConfig) -> LogSettings:
        """Returns the settings of a topic's partitions."""
        return cls(
            max_message_bytes=topic.max_message_bytes,
            log_append_time=topic.message_timestamp_type == "LogAppendTime",
            timestamp_bounds=TimestampBounds(
                topic.message_timestamp_before_max_ms, topic.message_timestamp_after_max_ms
            ),
            retention=Retention(
                topic.retention_ms, topic.retention_bytes, consumed=topic.retention_policy == "consumed"
            ),
        )

    def headers(self, data: Buffer, now_ms: int) -> list[BatchHeader]:
        """Returns the headers of a produce request's batches, after validating their records.

        Raises:
            KafkaError: as `parse_headers`, `check_records` and `TimestampBounds.check`.
        """
        headers = parse_headers(data, self.max_message_bytes)
        view, position = memoryview(data), 0
        for header in headers:
            end = position + header.size
            check_records(header, view[position:end])
            position = end
        if not self.log_append_time:
            self.timestamp_bounds.check(headers, now_ms)
        return headers


MAX_UNPACKED_BYTES: Final = 16 << 20
"""The largest unpacked size of a compressed batch in bytes; unpacking more would stall other requests."""

MAX_RECORDS: Final = 250_000
"""The largest number of records in a batch, for the same reason.

Java's producer splits a batch that is rejected with this error, and continues.
"""

_CODEC_MASK: Final = 0x07
_EXPECTED_RATIO: Final = 16
"""The expected compression ratio."""
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = 16
_TOO_SMALL: Final = "whole buffer"


def check_records(header: BatchHeader, batch: Buffer) -> None:
    """Reads each record of a batch whose header was checked and which therefore starts at offset 0.

    Raises:
        KafkaError: INVALID_RECORD if a record is unreadable or does not match the header; MESSAGE_TOO_LARGE
            for more than MAX_RECORDS records, or if the batch unpacks to more than MAX_UNPACKED_BYTES.
    """
    if header.record_count > MAX_RECORDS:
        raise _too_large(f"The batch has more than {MAX_RECORDS} records.")
    if header.codec:
        plain = header._replace(attributes=header.attributes & ~_CODEC_MASK)
        batch = seal(plain, _unpacked(header.codec, memoryview(batch)[HEADER_SIZE:]))
    try:
        offsets = [record.offset for record in DefaultRecordBatch(batch)]
    except (CorruptRecordException, UnicodeDecodeError) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, "The batch contains unreadable records.") from error
    if len(offsets) != header.record_count or offsets != list(range(len(offsets))):
        raise KafkaError(ErrorCode.INVALID_RECORD, "The records of the batch do not match its header.")


def _unpacked(codec: int, packed: memoryview) -> Buffer:
    try:
        if codec == 1:
            return _inflated(packed)
        if codec == 2:
            return b"".join(_snappy_blocks(packed))
        return _unpack_into_buffer(cramjam.lz4 if codec == 3 else cramjam.zstd, packed)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, "The batch cannot be unpacked.") from error


def _inflated(packed: memoryview) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    plain = stream.decompress(packed, MAX_UNPACKED_BYTES)
    if stream.unconsumed_tail:
        raise _too_large()
    if not stream.eof:
        raise zlib.error("truncated")
    return plain


def _snappy_blocks(packed: memoryview) -> Iterator[Buffer]:
    """Yields the blocks of Java's snappy framing, each after its length, or one block without framing."""
    if bytes(packed[: len(_XERIAL)]) != _XERIAL:
        yield _snappy(packed, MAX_UNPACKED_BYTES)
        return
    position, remaining = _XERIAL_HEADER, MAX_UNPACKED_BYTES
    while position < len(packed):
        (size,) = struct.unpack_from(">I", packed, position)
        position += 4
        if size > len(packed) - position:
            raise struct.error("truncated block")
        block = _snappy(packed[position : position + size], remaining)
        position, remaining = position + size, remaining - len(block)
        yield block


def _snappy(block: memoryview, max_bytes: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > max_bytes:
        raise _too_large()
    return bytes(cramjam.snappy.decompress_raw(block))


def _unpack_into_buffer(codec: Any, packed: memoryview) -> Buffer:
    for capacity in (min(_EXPECTED_RATIO * len(packed) + 4096, MAX_UNPACKED_BYTES), MAX_UNPACKED_BYTES):
        plain = bytearray(capacity)
        try:
            return memoryview(plain)[: codec.decompress_into(packed, plain)]
        except cramjam.DecompressionError as error:
            if _TOO_SMALL not in str(error):
                raise
    raise _too_large()


def _too_large(
    reason: str = f"The batch unpacks to more than {MAX_UNPACKED_BYTES} bytes of records.",
) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, reason)
