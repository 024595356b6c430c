"""Traces in record batches, as clients make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from opentelemetry.sdk.trace import TracerProvider

from sharebroker_protocol.records.batches import CODECS, BatchBuilder, Header
from sharebroker_protocol.tracing.context import TraceContext
from sharebroker_protocol.tracing.sampling import Sampling, SpanLimit
from sharebroker_protocol.tracing.tracer import Tracer
from sharebroker_server.record_log.traced_records import (
    DECODED_BYTES_PER_SECOND,
    TracedOffsets,
    TracedRecordLimit,
    TraceFinder,
)

CONTEXT = cast("Any", object())


def test_the_oldest_records_of_all_partitions_are_removed() -> None:
    limit = TracedRecordLimit(3)
    first, second = TracedOffsets(limit, 0), TracedOffsets(limit, 0)
    assert first.add(7, CONTEXT)
    assert not first.add(7, CONTEXT)
    assert second.add(1, CONTEXT)
    assert first.add(5, CONTEXT)
    assert [offset for offset, _ in first.within(0, 9)] == [5, 7]
    assert second.add(2, CONTEXT)
    assert first.within(6, 9) == []
    assert [offset for offset, _ in second.within(0, 1)] == [1]
    assert first
    assert not TracedOffsets(limit, 0)


KEPT = TraceContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7)
DROPPED = KEPT._replace(flags=0)


def header(context: TraceContext) -> Header:
    return ("traceparent", context.parent.encode())


def batch(headers: Sequence[Sequence[Header]], codec: str = "none", value: bytes = b"some payload") -> bytes:
    builder = BatchBuilder(CODECS[codec], 1 << 20)
    for one in headers:
        assert builder.append(1, b"key", value, one)
    return builder.build()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()


def finder(
    sampling: Sampling | None = None, spans: int = 1000, looked_into: int = DECODED_BYTES_PER_SECOND
) -> TraceFinder:
    provider = TracerProvider(shutdown_on_exit=False)
    sampling = sampling or Sampling(1.0, parent_based=True)
    tracer = Tracer(provider.get_tracer("test"), sampling, SpanLimit(1, spans, CLOCK), lambda: 1.0, CLOCK)
    return TraceFinder(tracer, SpanLimit(1, looked_into, CLOCK))


@pytest.mark.parametrize("codec", CODECS)
def test_traced_records_are_found_by_partition_and_offset(codec: str) -> None:
    data = batch([[], [("other", b"x"), header(KEPT)], [], [header(DROPPED)]], codec)
    more = batch([[header(KEPT), ("tracestate", b"a=b")]], codec)
    assert finder().find(data + more) == [(1, KEPT), (4, KEPT._replace(state="a=b"))]
    assert finder().find(memoryview(data)) == [(1, KEPT)]


def test_ratio_applies_when_the_parent_is_ignored() -> None:
    data = batch([[header(DROPPED)]])
    assert finder(Sampling(1.0, parent_based=False)).find(data) == [(0, DROPPED)]
    assert finder(Sampling(0.0, parent_based=False)).find(data) == []


def test_header_text_in_a_value_is_not_a_trace_header() -> None:
    value = b"\x16traceparent\x6e" + KEPT.parent.encode()
    assert finder().find(batch([[]], value=value)) == []


def test_headers_are_not_read_when_the_span_limit_is_reached() -> None:
    data = batch([[header(KEPT)]])
    few = finder(spans=8)
    assert few.find(data) == [(0, KEPT)]
    assert few._tracer.limit.take()
    assert few.find(data) == []


def test_decoded_bytes_are_limited() -> None:
    data = batch([[header(KEPT)]])
    slow = finder(looked_into=len(data) + 1)
    assert slow.find(data)
    assert slow.find(data) == []
    assert slow.find(batch([[]])) == []


def test_a_compressed_batch_counts_by_its_records() -> None:
    data = batch([[header(KEPT)], *[[]] * 9_999], "zstd")
    assert len(data) < 10_000
    slow = finder(looked_into=300_000)
    assert slow.find(data)
    assert slow.find(batch([[header(KEPT)]], "zstd")) == []


def test_traces_of_a_batch_that_unpacks_too_large_are_not_found() -> None:
    assert finder().find(batch([[header(KEPT)]], "zstd", value=bytes(1 << 20))) == []


def test_undecodable_records_are_not_traced() -> None:
    data = batch([[header(KEPT)]])
    damaged = data[:61] + b"\xff" * 4 + data[65:]
    assert finder().find(damaged) == []
    assert finder().find(data[:-1]) == []
    assert finder().find(b"") == []


def test_newest_batches_are_stored() -> None:
    remembered = TracedRecordLimit(3)
    one, other = TracedOffsets(remembered, 0), TracedOffsets(remembered, 0)
    assert not one
    assert all(offsets.add(offset, KEPT) for offsets, offset in ((one, 5), (one, 3), (other, 1)))
    assert not one.add(5, DROPPED)
    assert one.within(0, 9) == [(3, KEPT), (5, KEPT)]
    assert one.within(4, 4) == []
    assert other.add(2, KEPT)
    assert one.within(0, 9) == [(3, KEPT)]
    assert other.within(1, 1) == [(1, KEPT)]
