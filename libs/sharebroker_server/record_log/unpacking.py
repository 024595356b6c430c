"""Unpacks the records of compressed batches; the limit applies before memory is allocated."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final

import cramjam

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import Buffer

_EXPECTED_RATIO: Final = 16
"""The expected compression ratio."""
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = 16
_TOO_SMALL: Final = "whole buffer"


class UnpacksTooLargeError(KafkaError):
    """The records unpack to more bytes than the limit (MESSAGE_TOO_LARGE)."""


def unpack(codec: int, packed: memoryview, max_bytes: int) -> Buffer:
    """Returns the records of a batch with this codec: 1 gzip, 2 snappy, 3 lz4, 4 zstd.

    The decoders release the GIL, so that a thread may unpack beside the event loop.

    Raises:
        UnpacksTooLargeError: there are more than `max_bytes`.
        KafkaError: INVALID_RECORD if the bytes cannot be unpacked.
    """
    try:
        if codec == 1:
            return _inflated(packed, max_bytes)
        if codec == 2:
            return b"".join(_snappy_blocks(packed, max_bytes))
        return _unpack_into_buffer(cramjam.lz4 if codec == 3 else cramjam.zstd, packed, max_bytes)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, "The batch cannot be unpacked.") from error


def _inflated(packed: memoryview, max_bytes: int) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    plain = stream.decompress(packed, max_bytes)
    if stream.unconsumed_tail:
        raise _too_large(max_bytes)
    if not stream.eof:
        raise zlib.error("truncated")
    return plain


def _snappy_blocks(packed: memoryview, max_bytes: int) -> Iterator[Buffer]:
    """Yields the blocks of Java's snappy framing, each after its length, or one block without framing."""
    if bytes(packed[: len(_XERIAL)]) != _XERIAL:
        yield _snappy(packed, max_bytes)
        return
    position, remaining = _XERIAL_HEADER, max_bytes
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
        raise _too_large(max_bytes)
    return bytes(cramjam.snappy.decompress_raw(block))


def _unpack_into_buffer(codec: Any, packed: memoryview, max_bytes: int) -> Buffer:
    for capacity in (min(_EXPECTED_RATIO * len(packed) + 4096, max_bytes), max_bytes):
        plain = bytearray(capacity)
        try:
            return memoryview(plain)[: codec.decompress_into(packed, plain)]
        except cramjam.DecompressionError as error:
            if _TOO_SMALL not in str(error):
                raise
    raise _too_large(max_bytes)


def _too_large(max_bytes: int) -> UnpacksTooLargeError:
    return UnpacksTooLargeError(
        ErrorCode.MESSAGE_TOO_LARGE, f"The batch unpacks to more than {max_bytes} bytes of records."
    )
