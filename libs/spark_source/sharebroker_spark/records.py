"""Decodes record batches (magic 2) to Arrow, without a Python object per record.

Each record's length determines where the next one starts. Records of equal length are located in one step,
others cost one integer each. numpy then decodes one field of all records at a time, and Arrow copies keys,
values and headers out of the batches.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from aiokafka import codec

from sharebroker_protocol.errors import ErrorCode, KafkaError

_HEADER: Final = struct.Struct(">qi4xb4xhiqq14xi")
"""Base offset, length, magic, attributes, last offset delta, base and max timestamp, count."""
_UNCOUNTED_BYTES: Final = 12
"""The bytes of a batch before those that its length field counts."""
_MAGIC: Final = 2
_CODEC: Final = 0x07
_APPEND_TIME: Final = 0x08
_CONTROL: Final = 0x20
_DECODERS: Final = {1: codec.gzip_decode, 2: codec.snappy_decode, 3: codec.lz4_decode, 4: codec.zstd_decode}
_VARINT_BITS: Final = 64
_MIN_EQUAL_LENGTH: Final = 32
"""The smallest number of records that is checked for equal length."""
_SINGLE_STEPS: Final = 256
"""The number of records located one by one before the next such check."""

Ints = Any
"""A numpy array of int64."""


class Records(NamedTuple):
    """Columns of records in ascending order; times are milliseconds since the Unix epoch."""

    offsets: Ints
    times: Ints
    keys: pa.Array
    values: pa.Array
    headers: pa.Array

    def part(self, start: int, rows: int) -> Records:
        """Returns at most `rows` records from index `start` on."""
        end = start + rows
        arrow = (column.slice(start, rows) for column in (self.keys, self.values, self.headers))
        return Records(self.offsets[start:end], self.times[start:end], *arrow)


_Area = tuple[int, int, int, int, int, int, int]
"""The records of a batch: start, end, count, base offset, base timestamp, factor of each record's own
timestamp delta (1, or 0 with LogAppendTime), compression.
"""


def read_records(record_batches: bytes, first: int, last: int, header: pa.DataType) -> Records:
    """Returns the records first..last of whole batches; `header` is the type of the headers column.

    Transaction markers are left out. Raises KafkaError CORRUPT_MESSAGE.
    """
    try:
        data, areas = _decompress_areas(record_batches, _areas(record_batches, first, last))
        return _Reader(data, header).read(areas, first, last)
    except (IndexError, struct.error) as error:
        raise _corrupt("truncated") from error


def _areas(content: bytes, first: int, last: int) -> list[_Area]:
    found: list[_Area] = []
    unpack, size, at = _HEADER.unpack_from, _HEADER.size, 0
    while at < len(content):
        base, length, magic, attributes, span, base_time, max_time, count = unpack(content, at)
        start, at = at + size, at + _UNCOUNTED_BYTES + length
        if magic != _MAGIC or count < 0 or not start <= at <= len(content):
            raise _corrupt(f"magic {magic}, {length} bytes, {count} records")
        if attributes & _CONTROL or base > last or base + span < first:
            continue
        if attributes & _APPEND_TIME:
            found.append((start, at, count, base, max_time, 0, attributes & _CODEC))
        else:
            found.append((start, at, count, base, base_time, 1, attributes & _CODEC))
    return found


def _decompress_areas(content: bytes, areas: list[_Area]) -> tuple[bytes, list[_Area]]:
    """Returns one buffer with all areas: the response itself, unless an area is compressed."""
    if not any(area[-1] for area in areas):
        return content, areas
    parts: list[bytes] = []
    placed: list[_Area] = []
    size = 0
    for start, end, *facts, kind in areas:
        part = content[start:end] if not kind else _uncompressed(kind, content[start:end])
        placed.append((size, size + len(part), *facts, 0))  # type: ignore[arg-type]
        parts.append(part)
        size += len(part)
    return b"".join(parts), placed


def _uncompressed(kind: int, content: bytes) -> bytes:
    if kind not in _DECODERS:
        raise _corrupt(f"compression {kind}")
    try:
        return bytes(_DECODERS[kind](content))
    except Exception as error:  # each codec has its own errors
        raise _corrupt(f"decompression failed: {error}") from error


class _RecordPositions:
    """Locates records: the positions of their length fields."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._found: list[Ints] = []
        self._single: list[int] = []

    def add(self, start: int, end: int, count: int) -> None:
        """Locates the records of an area. Raises KafkaError, IndexError."""
        at = start
        while count:
            rows, after = self._equal_length(at, end, count) if count >= _MIN_EQUAL_LENGTH else (0, at)
            if not rows:
                rows = min(count, _SINGLE_STEPS)
                after = self._one_by_one(at, rows)
            count, at = count - rows, after
        if at != end:
            raise _corrupt("its records do not fill it")

    def all(self) -> Ints:
        """Returns all positions, ascending."""
        self._flush()
        return np.concatenate(self._found) if self._found else np.empty(0, np.int64)

    def _one_by_one(self, at: int, count: int) -> int:
        """Locates `count` records one by one; returns the position after them."""
        data, append_position = self._data, self._single.append
        for _ in range(count):
            append_position(at)
            size = data[at]
            at += 1
            if size > 0x7F:
                more = data[at]
                if more > 0x7F:
                    size, at = _varint(data, at - 1)
                else:
                    at += 1
                    size += (more << 7) - 0x80
            at += size >> 1
        return at

    def _equal_length(self, at: int, end: int, count: int) -> tuple[int, int]:
        """Locates records of the same length as the one at `at`.

        Returns their number, and the position after them.
        """
        data = self._data
        size, body = _varint(data, at)
        stride = body - at + (size >> 1)
        rows = min(count, (end - at) // stride)
        for place in range(at, body):
            column = data[place : place + (rows - 1) * stride + 1 : stride]
            rows = len(column) - len(column.lstrip(column[:1]))
        if rows < _MIN_EQUAL_LENGTH:
            return 0, at
        self._flush()
        self._found.append(np.arange(at, at + rows * stride, stride, dtype=np.int64))
        return rows, at + rows * stride

    def _flush(self) -> None:
        if self._single:
            self._found.append(np.array(self._single, np.int64))
            self._single = []


class _HeaderSpans(NamedTuple):
    """Headers per record; spans of keys and values, an entry for all first headers, one for all second."""

    counts: Ints
    keys: list[Ints]
    values: list[Ints]


class _Reader:
    """Decodes fields of all records at once."""

    def __init__(self, data: bytes, header: pa.DataType) -> None:
        self._data = data
        self._octets = np.frombuffer(data, np.uint8)
        self._buffer = pa.py_buffer(data)
        self._header = header

    def read(self, areas: Sequence[_Area], first: int, last: int) -> Records:
        """Returns the records of areas within first..last. Raises KafkaError, IndexError."""
        positions = _RecordPositions(self._data)
        for start, end, count, *_ in areas:
            positions.add(start, end, count)
        lengths, at = _varints(self._octets, positions.all())
        ends = at + lengths
        ticks, at = _varints(self._octets, at + 1)  # after the attributes
        deltas, at = _varints(self._octets, at)
        keys, at = self._span(at)
        values, at = self._span(at)
        spans, at = self._header_spans(at)
        if not np.array_equal(at, ends):
            raise _corrupt("a record does not match its length")
        headers = self._headers(spans)  # before this check they could lie outside the data
        counts, bases, base_times, own = np.array([area[2:6] for area in areas], np.int64).reshape(-1, 4).T
        offsets = np.repeat(bases, counts) + deltas
        times = np.repeat(base_times, counts) + np.repeat(own, counts) * ticks
        inside = (offsets >= first) & (offsets <= last)
        if not inside.all():
            offsets, times = offsets[inside], times[inside]
            keys, values = keys[:, inside], values[:, inside]
            headers = headers.filter(pa.array(inside))
        return Records(offsets, times, self._binary(keys), self._binary(values), headers)

    def _span(self, at: Ints) -> tuple[Ints, Ints]:
        """Returns start and size of length-prefixed bytes (negative: null), and the position after."""
        sizes, starts = _varints(self._octets, at)
        if len(sizes) and int(sizes.max()) > len(self._data):
            raise _corrupt("a key, value or header exceeds the batch")
        return np.stack([starts, sizes]), starts + np.maximum(sizes, 0)

    def _binary(self, spans: Ints) -> pa.Array:
        """Returns byte strings that lie apart: every other element of an array that includes the gaps."""
        starts, sizes = spans
        rows = len(starts)
        edges = np.zeros(2 * rows + 1, np.int32)
        edges[0:-1:2] = starts
        edges[1::2] = starts + np.maximum(sizes, 0)
        edges[-1] = edges[-2] if rows else 0
        with_gaps = pa.BinaryArray.from_buffers(
            pa.binary(), 2 * rows, [None, pa.py_buffer(edges), self._buffer]
        )
        nulls = sizes < 0
        return with_gaps.take(pa.array(np.arange(0, 2 * rows, 2), mask=nulls if nulls.any() else None))

    def _header_spans(self, at: Ints) -> tuple[_HeaderSpans, Ints]:
        """Returns where the headers are, and the position after them. Most records have no headers."""
        counts, at = _varints(self._octets, at)
        if len(counts) and int(counts.min()) < 0:
            raise _corrupt("a record has a negative number of headers")
        keys, values = [], []
        rows, remaining = np.flatnonzero(counts), counts.copy()
        while len(rows):
            key, after = self._span(at[rows])
            if int(key[1].min()) < 0:
                raise _corrupt("a header has no key")
            value, at[rows] = self._span(after)
            keys.append(key)
            values.append(value)
            remaining[rows] -= 1
            rows = rows[remaining[rows] > 0]
        return _HeaderSpans(counts, keys, values), at

    def _headers(self, spans: _HeaderSpans) -> pa.Array:
        """Returns the headers column; the headers lie within their records."""
        edges = np.zeros(len(spans.counts) + 1, np.int32)
        np.cumsum(spans.counts, out=edges[1:])
        pairs = self._pairs(spans.keys, spans.values)
        return pa.ListArray.from_arrays(pa.array(edges), pairs, type=self._header)

    def _pairs(self, keys: list[Ints], values: list[Ints]) -> pa.Array:
        kind = self._header.value_type
        if not keys:
            return pa.array([], kind)
        all_keys = np.hstack(keys)
        order = np.argsort(all_keys[0])
        names = as_text(self._binary(all_keys[:, order]), kind.field(0).type)
        return pa.StructArray.from_arrays(
            [names, self._binary(np.hstack(values)[:, order])], fields=list(kind)
        )


def as_text(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns binaries as text, with U+FFFD for invalid UTF-8."""
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        return pa.array(
            [None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()],
            kind,
        )


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the varint at a position, and the position after it. Raises IndexError."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte <= 0x7F:
            return value, at


def _varints(octets: Ints, at: Ints) -> tuple[Ints, Ints]:
    """Returns the zigzag varints at positions, and the positions after them. Raises IndexError."""
    found = octets[at].astype(np.uint64)
    after = at + 1
    more = np.flatnonzero(found & 0x80)
    found &= np.uint64(0x7F)
    shift = 7
    while len(more):
        if shift >= _VARINT_BITS:
            raise _corrupt("a number is too long")
        bits = octets[after[more]].astype(np.uint64)
        found[more] |= (bits & np.uint64(0x7F)) << np.uint64(shift)
        after[more] += 1
        more = more[bits > 0x7F]
        shift += 7
    return ((found >> np.uint64(1)) ^ -(found & np.uint64(1))).view(np.int64), after


def _corrupt(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A record batch cannot be read: {reason}.")
