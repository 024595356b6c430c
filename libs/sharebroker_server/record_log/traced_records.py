"""Traced records: finds them in batches, and keeps the trace contexts of the newest ones by offset.

A batch without traces costs one search for a few bytes.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.tracing.context import LENGTH, TraceContext, of_headers
from sharebroker_protocol.tracing.sampling import SpanLimit
from sharebroker_protocol.tracing.tracer import Tracer
from sharebroker_server.record_log.core.batch import HEADER_SIZE, BatchHeader, Buffer, header_of
from sharebroker_server.record_log.record_validation import plain_batch

MAX_RECORDS: Final = 10_000


class TracedRecordLimit:
    """Limits the traced records of all partitions: beyond `limit` the oldest are removed."""

    def __init__(self, limit: int = MAX_RECORDS) -> None:
        self._limit = limit
        self._order: deque[tuple[TracedOffsets, int]] = deque()

    def add(self, of: TracedOffsets, offset: int) -> None:
        """Counts one more record."""
        if len(self._order) >= self._limit:
            oldest, oldest_offset = self._order.popleft()
            oldest.forget(oldest_offset)
        self._order.append((of, offset))


class TracedOffsets:
    """Traced records of one partition. Records before `known_from` are included only if they were read."""

    __slots__ = ("_contexts", "_limit", "_offsets", "known_from")

    def __init__(self, limit: TracedRecordLimit, known_from: int) -> None:
        self._limit = limit
        self._contexts: dict[int, TraceContext] = {}
        self._offsets: list[int] = []
        self.known_from = known_from

    def __bool__(self) -> bool:
        return bool(self._offsets)

    def add(self, offset: int, context: TraceContext) -> bool:
        """Adds a record; returns False if it is present."""
        if offset in self._contexts:
            return False
        self._limit.add(self, offset)
        self._contexts[offset] = context
        insort(self._offsets, offset)
        return True

    def forget(self, offset: int) -> None:
        """Removes a record."""
        del self._contexts[offset]
        del self._offsets[bisect_left(self._offsets, offset)]

    def within(self, first: int, last: int) -> list[tuple[int, TraceContext]]:
        """Returns the records in first..last, in ascending order."""
        offsets = self._offsets[bisect_left(self._offsets, first) : bisect_right(self._offsets, last)]
        return [(offset, self._contexts[offset]) for offset in offsets]


# A header in a batch: length of the key, key, length of the value (lengths are zigzag, so twice the value),
# value.
HEADER_PREFIX: Final = b"\x16traceparent" + bytes([2 * LENGTH])
_SAMPLED: Final = re.compile(re.escape(HEADER_PREFIX) + rb"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf]")

DECODED_BYTES_PER_SECOND: Final = 8 << 20
"""The limit of batch bytes decoded per second in search of traces; a single batch may exceed it."""

_COMPRESSED_WEIGHT: Final = 8
"""The weight of a compressed byte."""

_RECORD_WEIGHT: Final = 32
"""The weight of a record in bytes, since a few bytes may unpack to many records."""

_UNPACKING_WEIGHT: Final = 64 << 10
"""The smallest weight of a compressed batch in bytes."""

_MAX_UNPACKED_BYTES: Final = 1 << 20
"""The unpacked size of a batch in bytes above which its traces are not found."""


class TracedRecord(NamedTuple):
    """A traced record: its ordinal among the searched records, and its trace context."""

    ordinal: int
    context: TraceContext


class TraceFinder:
    """Finds traces in batches that a log has validated."""

    def __init__(self, tracer: Tracer, limit: SpanLimit) -> None:
        self._tracer = tracer
        self._limit = limit
        self._pattern = _SAMPLED if tracer.sampling.parent_based else re.compile(re.escape(HEADER_PREFIX))

    def find(self, data: Buffer) -> list[TracedRecord]:
        """Returns the traced records of all batches in `data`, as far as the span limit permits."""
        data = bytes(data)
        found: list[TracedRecord] = []
        ordinal = position = 0
        while len(data) - position >= HEADER_SIZE:
            header = header_of(data, position)
            if header.size < HEADER_SIZE or position + header.size > len(data):
                break
            end = position + header.size
            if self._should_decode(data, position, header):
                found += self._traced(header, data[position:end], ordinal)
            ordinal += header.last_offset_delta + 1
            position = end
        return found

    def _should_decode(self, data: bytes, position: int, header: BatchHeader) -> bool:
        if header.control or not self._tracer.limit.has_room():
            return False
        if header.codec:
            weight = header.size * _COMPRESSED_WEIGHT + header.record_count * _RECORD_WEIGHT
            return self._limit.take(max(weight, _UNPACKING_WEIGHT))
        start = data.find(HEADER_PREFIX, position, position + header.size)
        if start < 0 or self._pattern.search(data, start, position + header.size) is None:
            return False
        return self._limit.take(header.size)

    def _traced(self, header: BatchHeader, batch: bytes, ordinal: int) -> Iterator[TracedRecord]:
        try:
            decoded = DefaultRecordBatch(plain_batch(header, batch, _MAX_UNPACKED_BYTES))
            records = [(record.offset, record.headers) for record in decoded if record.headers]
        except (
            Exception
        ):  # decoders and codecs raise arbitrary errors; consumers get them when they read the batch
            return
        for offset, headers in records:
            context = of_headers(headers)
            if context is not None and self._tracer.joins(context):
                yield TracedRecord(ordinal + offset - decoded.base_offset, context)
