"""Finds the traced records of a batch. A batch without traces costs one search for a few bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.tracing.context import LENGTH, TraceContext, of_headers
from sharebroker_protocol.tracing.sampling import SpanLimit
from sharebroker_protocol.tracing.tracer import Tracer
from sharebroker_server.record_log.core.batch import HEADER_SIZE, BatchHeader, Buffer, header_of

# A header in a batch: length of the key, key, length of the value (lengths are zigzag, so twice the value),
# value.
HEADER_PREFIX: Final = b"\x16traceparent" + bytes([2 * LENGTH])
_SAMPLED: Final = re.compile(re.escape(HEADER_PREFIX) + rb"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf]")

DECODED_BYTES_PER_SECOND: Final = 8 << 20
"""The limit of batch bytes decoded per second in search of traces; a single batch may exceed it."""

_COMPRESSED_WEIGHT: Final = 8
"""The weight of a compressed byte."""


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
                found += self._traced(data[position:end], ordinal)
            ordinal += header.last_offset_delta + 1
            position = end
        return found

    def _should_decode(self, data: bytes, position: int, header: BatchHeader) -> bool:
        if header.control or not self._tracer.limit.room():
            return False
        if header.codec:
            return self._limit.take(header.size * _COMPRESSED_WEIGHT)
        start = data.find(HEADER_PREFIX, position, position + header.size)
        if start < 0 or self._pattern.search(data, start, position + header.size) is None:
            return False
        return self._limit.take(header.size)

    def _traced(self, batch: bytes, ordinal: int) -> Iterator[TracedRecord]:
        try:
            decoded = DefaultRecordBatch(batch)
            records = [(record.offset, record.headers) for record in decoded if record.headers]
        except (
            Exception
        ):  # decoders and codecs raise arbitrary errors; consumers get them when they read the batch
            return
        for offset, headers in records:
            context = of_headers(headers)
            if context is not None and self._tracer.joins(context):
                yield TracedRecord(ordinal + offset - decoded.base_offset, context)
