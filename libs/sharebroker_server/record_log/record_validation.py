"""Validates the records of a batch before it is appended (Kafka: LogValidator).

A consumer that cannot read a batch cannot get past it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final

import cramjam
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import HEADER_SIZE, BatchHeader, Buffer, seal

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
