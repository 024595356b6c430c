"""Record batches (magic 2) as Arrow: all records of an answer at once, no Python object for what is in them.

Where a record begins is told by the one before it. Records of one length are found in one step; else each
costs an integer. Everything else is read by numpy, a field of all records at a time, and Arrow copies keys,
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
_UNCOUNTED: Final = 12
"""Bytes of a batch before those that its length counts."""
_MAGIC: Final = 2
_CODEC: Final = 0x07
_APPEND_TIME: Final = 0x08
_CONTROL: Final = 0x20
_DECODERS: Final = {1: codec.gzip_decode, 2: codec.snappy_decode, 3: codec.lz4_decode, 4: codec.zstd_decode}
_VARINT_BITS: Final = 64
_WORTH: Final = 32
"""So many records at least are looked at together for being of one length."""
_ALONE: Final = 256
"""So many that are not are gone through before the next look."""

Ints = Any
"""A numpy array of int64."""


class Records(NamedTuple):
    """Columns of records, ascending; times are milliseconds since the Unix epoch."""

    offsets: Ints
    times: Ints
    keys: pa.Array
    values: pa.Array
    headers: pa.Array

    def part(self, begin: int, rows: int) -> Records:
        """At most `rows` of them, from one on."""
        end = begin + rows
        arrow = (column.slice(begin, rows) for column in (self.keys, self.values, self.headers))
        return Records(self.offsets[begin:end], self.times[begin:end], *arrow)


_Area = tuple[int, int, int, int, int, int, int]
"""A batch's records: from and to where they stand, how many, base offset, base time, how much of its own time
each adds to that (1; 0: they are all of the base time), compression."""


def read_records(record_batches: bytes, first: int, last: int, header: pa.DataType) -> Records:
    """The records first..last of whole batches; `header` is the type of the column of headers.

    Markers of transactions are left out. Raises KafkaError CORRUPT_MESSAGE.
    """
    try:
        data, areas = _laid_out(record_batches, _areas(record_batches, first, last))
        return _Reader(data, header).read(areas, first, last)
    except (IndexError, struct.error) as error:
        raise _corrupt("it ends too early") from error


def _areas(content: bytes, first: int, last: int) -> list[_Area]:
    found: list[_Area] = []
    unpack, size, at = _HEADER.unpack_from, _HEADER.size, 0
    while at < len(content):
        base, length, magic, attributes, span, base_time, max_time, count = unpack(content, at)
        begin, at = at + size, at + _UNCOUNTED + length
        if magic != _MAGIC or count < 0 or not begin <= at <= len(content):
            raise _corrupt(f"magic {magic}, {length} bytes, {count} records")
        if attributes & _CONTROL or base > last or base + span < first:
            continue
        if attributes & _APPEND_TIME:
            found.append((begin, at, count, base, max_time, 0, attributes & _CODEC))
        else:
            found.append((begin, at, count, base, base_time, 1, attributes & _CODEC))
    return found


def _laid_out(content: bytes, areas: list[_Area]) -> tuple[bytes, list[_Area]]:
    """One text with all areas: the answer itself, unless something of it is compressed."""
    if not any(area[-1] for area in areas):
        return content, areas
    parts: list[bytes] = []
    placed: list[_Area] = []
    size = 0
    for begin, end, *facts, kind in areas:
        part = content[begin:end] if not kind else _uncompressed(kind, content[begin:end])
        placed.append((size, size + len(part), *facts, 0))  # type: ignore[arg-type]
        parts.append(part)
        size += len(part)
    return b"".join(parts), placed


def _uncompressed(kind: int, content: bytes) -> bytes:
    if kind not in _DECODERS:
        raise _corrupt(f"compression {kind}")
    try:
        return bytes(_DECODERS[kind](content))
    except Exception as error:  # each codec has errors of its own
        raise _corrupt(f"it cannot be uncompressed: {error}") from error


class _Heads:
    """Finds where records begin: where the length of each stands."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._found: list[Ints] = []
        self._single: list[int] = []

    def add(self, begin: int, end: int, count: int) -> None:
        """The records of an area. Raises KafkaError, IndexError."""
        at = begin
        while count:
            rows, behind = self._alike(at, end, count) if count >= _WORTH else (0, at)
            if not rows:
                rows = min(count, _ALONE)
                behind = self._one_by_one(at, rows)
            count, at = count - rows, behind
        if at != end:
            raise _corrupt("its records are longer or shorter than it is")

    def all(self) -> Ints:
        """All that were found, ascending."""
        self._flush()
        return np.concatenate(self._found) if self._found else np.empty(0, np.int64)

    def _one_by_one(self, at: int, count: int) -> int:
        """So many records; what follows them."""
        data, note = self._data, self._single.append
        for _ in range(count):
            note(at)
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

    def _alike(self, at: int, end: int, count: int) -> tuple[int, int]:
        """Records of the same length as the one here, if they are many; how many, and what follows them."""
        data = self._data
        size, body = _varint(data, at)
        stride = body - at + (size >> 1)
        rows = min(count, (end - at) // stride)
        for place in range(at, body):
            column = data[place : place + (rows - 1) * stride + 1 : stride]
            rows = len(column) - len(column.lstrip(column[:1]))
        if rows < _WORTH:
            return 0, at
        self._flush()
        self._found.append(np.arange(at, at + rows * stride, stride, dtype=np.int64))
        return rows, at + rows * stride

    def _flush(self) -> None:
        if self._single:
            self._found.append(np.array(self._single, np.int64))
            self._single = []


class _Reader:
    """Reads fields of all records of a text at once."""

    def __init__(self, data: bytes, header: pa.DataType) -> None:
        self._data = data
        self._octets = np.frombuffer(data, np.uint8)
        self._buffer = pa.py_buffer(data)
        self._header = header

    def read(self, areas: Sequence[_Area], first: int, last: int) -> Records:
        """The records of areas that lie in first..last. Raises KafkaError, IndexError."""
        heads = _Heads(self._data)
        for begin, end, count, *_ in areas:
            heads.add(begin, end, count)
        lengths, at = _varints(self._octets, heads.all())
        ends = at + lengths
        ticks, at = _varints(self._octets, at + 1)  # behind the attributes
        deltas, at = _varints(self._octets, at)
        keys, at = self._span(at)
        values, at = self._span(at)
        headers, at = self._headers(at)
        if not np.array_equal(at, ends):
            raise _corrupt("a record is longer or shorter than it says")
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
        """Where bytes that follow their size begin, and that size, below 0: null; and what follows them."""
        sizes, begins = _varints(self._octets, at)
        if len(sizes) and int(sizes.max()) > len(self._data):
            raise _corrupt("a key, value or header is longer than it is")
        return np.stack([begins, sizes]), begins + np.maximum(sizes, 0)

    def _binary(self, spans: Ints) -> pa.Array:
        """Bytes that lie apart, ascending: every other one of an array that has the gaps between, too."""
        begins, sizes = spans
        rows = len(begins)
        edges = np.zeros(2 * rows + 1, np.int32)
        edges[0:-1:2] = begins
        edges[1::2] = begins + np.maximum(sizes, 0)
        edges[-1] = edges[-2] if rows else 0
        apart = pa.BinaryArray.from_buffers(pa.binary(), 2 * rows, [None, pa.py_buffer(edges), self._buffer])
        nulls = sizes < 0
        return apart.take(pa.array(np.arange(0, 2 * rows, 2), mask=nulls if nulls.any() else None))

    def _headers(self, at: Ints) -> tuple[pa.Array, Ints]:
        """The column of headers, and what follows them. Most records have none."""
        counts, at = _varints(self._octets, at)
        if len(counts) and int(counts.min()) < 0:
            raise _corrupt("a record has fewer than no headers")
        keys, values = [], []
        rows, left = np.flatnonzero(counts), counts.copy()
        while len(rows):
            key, behind = self._span(at[rows])
            if int(key[1].min()) < 0:
                raise _corrupt("a header has no key")
            value, at[rows] = self._span(behind)
            keys.append(key)
            values.append(value)
            left[rows] -= 1
            rows = rows[left[rows] > 0]
        edges = np.zeros(len(counts) + 1, np.int32)
        np.cumsum(counts, out=edges[1:])
        return pa.ListArray.from_arrays(pa.array(edges), self._pairs(keys, values), type=self._header), at

    def _pairs(self, keys: list[Ints], values: list[Ints]) -> pa.Array:
        kind = self._header.value_type
        if not keys:
            return pa.array([], kind)
        every = np.hstack(keys)
        order = np.argsort(every[0])
        names = as_text(self._binary(every[:, order]), kind.field(0).type)
        return pa.StructArray.from_arrays(
            [names, self._binary(np.hstack(values)[:, order])], fields=list(kind)
        )


def as_text(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Binaries as text; what is no UTF-8 is replaced by U+FFFD."""
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        return pa.array(
            [None if one is None else one.decode("utf-8", "replace") for one in values.to_pylist()], kind
        )


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that stands in a place (base 128), and the place behind it. Raises IndexError."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte <= 0x7F:
            return value, at


def _varints(octets: Ints, at: Ints) -> tuple[Ints, Ints]:
    """The numbers that stand in places (zigzag, base 128), and the places behind them. Raises IndexError."""
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


def _corrupt(why: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A record batch cannot be read: {why}.")
