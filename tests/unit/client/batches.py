"""Deliveries for tests: batches with chosen offsets, and acquisitions of them."""

from __future__ import annotations

import struct

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from sharebroker.consumer.accumulator import Accumulator
from sharebroker_protocol.records.batches import CODECS
from sharebroker_protocol.records.record import AcquiredRecords


def batch(base: int, values: list[bytes | None], *, compression: str = "none") -> bytes:
    """A batch whose first record has offset `base`; a None leaves a gap, as compaction does."""
    builder = DefaultRecordBatchBuilder(2, CODECS[compression].number, 0, -1, -1, -1, 1 << 20)
    for delta, value in enumerate(values):
        if value is not None:
            builder.append(delta, 1000 + delta, b"k", value, [])
    data = bytearray(builder.build())
    struct.pack_into(">i", data, 23, len(values) - 1)
    return sealed(data, base)


def sealed(data: bytearray, base: int) -> bytes:
    """Returns `data` with its base offset set and its CRC corrected."""
    struct.pack_into(">q", data, 0, base)
    struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
    return bytes(data)


def control_batch(base: int) -> bytes:
    """A transaction marker at `base`."""
    data = bytearray(batch(base, [b"commit"]))
    (attributes,) = struct.unpack_from(">h", data, 21)
    struct.pack_into(">h", data, 21, attributes | 0x30)
    return sealed(data, base)


def acquisition(first: int, last: int, accumulator: Accumulator | None = None) -> AcquiredRecords:
    sink = accumulator or Accumulator(lambda: None)
    acquired = AcquiredRecords(("id", "flights"), 0, (first, last), sink)
    sink.add_acquisition(acquired)
    return acquired
