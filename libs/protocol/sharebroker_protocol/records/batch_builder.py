"""Builds record batches (magic 2) to publish."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from crc32c import crc32c

from sharebroker_protocol.records.compression import Codec

Header = tuple[str, bytes | None]

HEADER_BYTES: Final = 61
_LENGTH_AT: Final = 8
_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_AFTER_LENGTH: Final = 12


class BatchBuilder:
    """Collects records of one partition and builds one batch from them.

    `batch_size` (`batch.size`, bytes before compression) is a soft limit: a larger record gets a batch
    of its own.
    """

    __slots__ = ("_builder", "_codec", "count")

    def __init__(self, codec: Codec, batch_size: int) -> None:
        # Compression happens below, because aiokafka's lz4 is a hundred times slower than the codec.
        self._builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, batch_size)
        self._codec = codec
        self.count = 0

    def append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
    ) -> bool:
        """Adds a record; returns False and adds nothing if the batch is full."""
        if self._builder.append(self.count, timestamp_ms, key, value, list(headers)) is None:
            return False
        self.count += 1
        return True

    @property
    def size(self) -> int:
        """Size in bytes so far, before compression."""
        return int(self._builder.size())

    def build(self) -> bytes:
        """Returns the finished batch, with base offset 0. The builder cannot be used afterwards."""
        plain = bytes(self._builder.build())
        return plain if self._codec.number == 0 else _compressed(plain, self._codec)


def _compressed(plain: bytes, codec: Codec) -> bytes:
    """Returns `plain` with compressed records and an adjusted header (length, attributes, CRC)."""
    records = codec.compress(plain[HEADER_BYTES:])
    batch = bytearray(plain[:HEADER_BYTES]) + records
    struct.pack_into(">i", batch, _LENGTH_AT, len(batch) - _AFTER_LENGTH)
    (attributes,) = struct.unpack_from(">h", batch, _ATTRIBUTES_AT)
    struct.pack_into(">h", batch, _ATTRIBUTES_AT, attributes | codec.number)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
    return bytes(batch)
