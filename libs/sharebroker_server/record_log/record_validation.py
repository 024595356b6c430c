"""What a producer says are records, read once before they are kept.

A consumer that cannot read a batch stays before it.
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
from sharebroker_server.record_log.core.batch import HEADER_SIZE, BatchHeader, Buffer, sealed

MOST_UNPACKED: Final = 16 << 20
"""Bytes of records a compressed batch may have; more would hold everybody else up while they are read."""

MOST_RECORDS: Final = 250_000
"""Records of a batch, for the same reason. Java's producer halves a batch that is refused so, and goes on."""

_CODEC_MASK: Final = 0x07
_FEW: Final = 16
"""Times its size that a batch unpacks to, as a rule."""
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = 16
_TOO_SMALL: Final = "whole buffer"


def check_records(header: BatchHeader, batch: Buffer) -> None:
    """Read a batch whose header was checked, so that it begins at offset 0, record by record.

    Kafka's LogValidator does.

    Raises KafkaError: INVALID_RECORD for what is no record, or not the one its header promises;
    MESSAGE_TOO_LARGE for more than MOST_RECORDS, or a compressed batch of more than MOST_UNPACKED bytes.
    """
    if header.record_count > MOST_RECORDS:
        raise _too_large(f"The batch has more than {MOST_RECORDS} records.")
    if header.codec:
        plain = header._replace(attributes=header.attributes & ~_CODEC_MASK)
        batch = sealed(plain, _unpacked(header.codec, memoryview(batch)[HEADER_SIZE:]))
    try:
        offsets = [record.offset for record in DefaultRecordBatch(batch)]
    except (CorruptRecordException, UnicodeDecodeError) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, "The batch has records that cannot be read.") from error
    if len(offsets) != header.record_count or offsets != list(range(len(offsets))):
        raise KafkaError(ErrorCode.INVALID_RECORD, "The batch has other records than its header tells.")


def _unpacked(codec: int, packed: memoryview) -> Buffer:
    try:
        if codec == 1:
            return _inflated(packed)
        if codec == 2:
            return b"".join(_snappy_blocks(packed))
        return _into_room(cramjam.lz4 if codec == 3 else cramjam.zstd, packed)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, "The batch cannot be unpacked.") from error


def _inflated(packed: memoryview) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    plain = stream.decompress(packed, MOST_UNPACKED)
    if stream.unconsumed_tail:
        raise _too_large()
    if not stream.eof:
        raise zlib.error("it is cut off")
    return plain


def _snappy_blocks(packed: memoryview) -> Iterator[Buffer]:
    """Blocks behind their lengths, as Java's library writes them, or one block without."""
    if bytes(packed[: len(_XERIAL)]) != _XERIAL:
        yield _snappy(packed, MOST_UNPACKED)
        return
    position, left = _XERIAL_HEADER, MOST_UNPACKED
    while position < len(packed):
        (size,) = struct.unpack_from(">I", packed, position)
        position += 4
        if size > len(packed) - position:
            raise struct.error("a block is cut off")
        block = _snappy(packed[position : position + size], left)
        position, left = position + size, left - len(block)
        yield block


def _snappy(block: memoryview, most: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > most:
        raise _too_large()
    return bytes(cramjam.snappy.decompress_raw(block))


def _into_room(codec: Any, packed: memoryview) -> Buffer:
    for room in (min(_FEW * len(packed) + 4096, MOST_UNPACKED), MOST_UNPACKED):
        plain = bytearray(room)
        try:
            return memoryview(plain)[: codec.decompress_into(packed, plain)]
        except cramjam.DecompressionError as error:
            if _TOO_SMALL not in str(error):
                raise
    raise _too_large()


def _too_large(why: str = f"The batch unpacks to more than {MOST_UNPACKED} bytes of records.") -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, why)
