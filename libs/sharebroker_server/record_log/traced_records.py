"""Which records of a batch are traced. A batch without traces costs one search for a few bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.tracing.context import LENGTH, TraceContext, of_headers
from sharebroker_protocol.tracing.limit import SpanLimit
from sharebroker_protocol.tracing.tracer import Tracer
from sharebroker_server.record_log.core.batch import HEADER_SIZE, BatchHeader, Buffer, header_of

# A header as it lies in a batch: length of its key, the key, length of its value (both twice, as zigzag has
# them), the value.
NEEDLE: Final = b"\x16traceparent" + bytes([2 * LENGTH])
_SAMPLED: Final = re.compile(re.escape(NEEDLE) + rb"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf]")

LOOKED_INTO: Final = 8 << 20
"""Bytes of batches that are decoded in a second, to find out about traces; one is, however large it is."""

_COMPRESSED: Final = 8
"""A compressed byte counts as so many."""


class Traced(NamedTuple):
    """A record, by its place among those that were looked at, and where in which trace it was made."""

    place: int
    context: TraceContext


class Finder:
    """Looks for traces in batches that a log has checked."""

    def __init__(self, tracer: Tracer, limit: SpanLimit) -> None:
        self._tracer = tracer
        self._limit = limit
        self._form = _SAMPLED if tracer.sampling.parent_based else re.compile(re.escape(NEEDLE))

    def find(self, data: Buffer) -> list[Traced]:
        """What is traced of all batches in `data`, as far as there is room for more traces."""
        data = bytes(data)
        found: list[Traced] = []
        place = position = 0
        while len(data) - position >= HEADER_SIZE:
            header = header_of(data, position)
            if header.size < HEADER_SIZE or position + header.size > len(data):
                break
            end = position + header.size
            if self._is_worth_a_look(data, position, header):
                found += self._traced(data[position:end], place)
            place += header.last_offset_delta + 1
            position = end
        return found

    def _is_worth_a_look(self, data: bytes, position: int, header: BatchHeader) -> bool:
        if header.control or not self._tracer.limit.room():
            return False
        if header.codec:
            return self._limit.take(header.size * _COMPRESSED)
        begins = data.find(NEEDLE, position, position + header.size)
        if begins < 0 or self._form.search(data, begins, position + header.size) is None:
            return False
        return self._limit.take(header.size)

    def _traced(self, batch: bytes, place: int) -> Iterator[Traced]:
        try:
            decoded = DefaultRecordBatch(batch)
            records = [(record.offset, record.headers) for record in decoded if record.headers]
        except Exception:  # decoders and codecs raise what they like; consumers will see for themselves
            return
        for offset, headers in records:
            context = of_headers(headers)
            if context is not None and self._tracer.joins(context):
                yield Traced(place + offset - decoded.base_offset, context)
