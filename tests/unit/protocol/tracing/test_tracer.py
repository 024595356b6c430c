"""Creation of spans, sampling, and the span limit."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from sharebroker.aio import Producer
from sharebroker.producer.config import ProducerConfig
from sharebroker_protocol import tracing
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1.produce_pb2 import PublishRecord
from sharebroker_protocol.tracing.context import TraceContext
from sharebroker_protocol.tracing.sampling import SPANS_PER_TRACE, Sampling, SpanLimit
from sharebroker_protocol.tracing.tracer import RecordTraces, Tracer, context_of, link
from sharebroker_server.gateway.produce.record_batching import PublishTraces
from sharebroker_server.leader_calls.values import AppendResult
from tests.unit.client.fake_gateway import FakeGateway
from tests.unit.share_partition_leader.tracing.spans import PARENT, FinishedSpans

LATER = TraceContext(3, 4, 1, "vendor=x")


@pytest.fixture
def spans() -> FinishedSpans:
    return FinishedSpans()


def limited(spans: FinishedSpans, burst: int, ratio: float = 1.0, draw: float = 1.0) -> Tracer:
    """A tracer that has tokens for `burst` spans and receives no more."""
    sampling, limit = Sampling(ratio, parent_based=True), SpanLimit(0.0, burst, lambda: 0.0)
    return Tracer(spans.tracer._tracer, sampling, limit, lambda: draw, lambda: 0.0)


def test_a_span_has_its_parent_links_and_times(spans: FinishedSpans) -> None:
    span = spans.tracer.start("send", PARENT, SpanKind.PRODUCER, {"a": 1}, [LATER], at=1.5)
    assert span is not None
    spans.tracer.end(span, at=2.5)
    (finished,) = spans.all()
    assert finished.parent is not None
    assert (finished.parent.trace_id, finished.parent.span_id) == PARENT[:2]
    assert [(entry.context.trace_id, entry.context.span_id) for entry in finished.links] == [LATER[:2]]
    assert (finished.start_time, finished.end_time) == (1_500_000_000, 2_500_000_000)
    assert dict(finished.attributes or {}) == {"a": 1}


def test_a_span_without_parent_starts_a_trace_even_inside_another(spans: FinishedSpans) -> None:
    with spans.tracer.within(PARENT):
        span = spans.tracer.start("send", None, SpanKind.PRODUCER, {})
    assert span is not None
    assert context_of(span).trace_id != PARENT.trace_id


def test_a_link_can_be_added_later_with_its_state(spans: FinishedSpans) -> None:
    span = spans.tracer.inner("work", PARENT, {})
    assert span is not None
    link(span, LATER)
    spans.tracer.end(span)
    (added,) = spans.all()[0].links
    assert added.context.trace_state.to_header() == LATER.state


@pytest.mark.parametrize(("metadata", "reason"), [({}, None), ({"reason": "lock_timeout"}, "lock_timeout")])
def test_a_failed_span_has_code_reason_and_text(
    spans: FinishedSpans, metadata: dict[str, str], reason: str | None
) -> None:
    span = spans.tracer.inner("work", PARENT, {})
    assert span is not None
    spans.tracer.end(span, KafkaError(ErrorCode.INVALID_RECORD_STATE, "lost", metadata=metadata))
    (finished,) = spans.all()
    attributes = finished.attributes or {}
    assert attributes["error.type"] == "INVALID_RECORD_STATE"
    assert attributes.get("messaging.sharebroker.reason") == reason
    assert (finished.status.status_code, finished.status.description) == (StatusCode.ERROR, "lost")


def test_current_span_is_set_only_inside_its_block(spans: FinishedSpans) -> None:
    tracer = spans.tracer
    assert tracer.current() is None
    with tracer.within(PARENT):
        assert tracer.current() == PARENT
        with tracer.within(None):
            assert tracer.current() is None
        with tracer.within(PARENT._replace(flags=0)):
            assert tracer.current() is None, "the origin did not sample this trace"
        assert tracer.current() == PARENT
    assert tracer.current() is None


def test_no_span_is_created_at_the_limit(spans: FinishedSpans) -> None:
    tracer = limited(spans, 1)
    assert tracer.inner("first", PARENT, {}) is not None
    assert tracer.inner("second", PARENT, {}) is None


@pytest.mark.parametrize(("ratio", "traces"), [(1.0, 3), (0.5, 2)])
def test_new_traces_are_limited_to_complete_ones_below_ratio_1(
    spans: FinishedSpans, ratio: float, traces: int
) -> None:
    tracer = limited(spans, 2 * SPANS_PER_TRACE, ratio)
    assert [tracer.has_room(None) for _ in range(3)].count(True) == traces
    assert tracer.has_room(PARENT), "a trace of another process is not a new one"


def test_nothing_begins_or_joins_without_room_for_a_trace(spans: FinishedSpans) -> None:
    tracer = limited(spans, SPANS_PER_TRACE)
    assert tracer.begins()
    assert tracer.joins(PARENT)
    assert not tracer.joins(None)
    assert not tracer.joins(PARENT._replace(flags=0))
    tracer.inner("work", PARENT, {})
    assert not tracer.begins()
    assert not tracer.joins(PARENT)
    assert not tracer.has_room(PARENT)


@pytest.mark.parametrize(
    ("ratio", "draw", "skipped"), [(1.0, 0.5, 0), (0.5, 0.9, 0), (0.5, 0.2, 2), (0.0, 0.9, sys.maxsize)]
)
def test_ratio_and_random_number_give_the_traces_to_skip(
    spans: FinishedSpans, ratio: float, draw: float, skipped: int
) -> None:
    tracer = limited(spans, SPANS_PER_TRACE, ratio, draw)
    assert tracer.left_out() == skipped
    assert tracer.begins() == (skipped == 0)


REQUESTS, RECORDS = 50, 200


class TracedProcess:
    """A process that samples a ratio of its new traces, with the spans it created."""

    def __init__(self, ratio: float, spans: int = 1 << 30) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        lots = Random(7)
        self.tracer = Tracer(
            provider.get_tracer("test"),
            Sampling(ratio, parent_based=True),
            SpanLimit(1.0, spans, lambda: 0.0),
            lambda: 1.0 - lots.random(),
            lambda: 0.0,
        )

    @property
    def finished(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    @property
    def spans(self) -> Counter[str]:
        return Counter(span.name for span in self.finished)


def publish(process: TracedProcess, requests: int) -> None:
    """Publishes `requests` requests, each with `RECORDS` records of one partition."""
    for _ in range(requests):
        traces = PublishTraces("orders", RecordTraces(process.tracer))
        for index in range(RECORDS):
            traces.begin(PublishRecord(value=b"x"), 0, index)
        traces.completed([AppendResult("t", 0)])


def test_record_spans_link_to_send_span() -> None:
    process = TracedProcess(1.0)
    publish(process, 1)
    sent, first, *others = process.finished
    assert [link.context.span_id for link in sent.links] == [span_id(other) for other in others[:128]]
    assert sent.parent is not None
    assert sent.parent.span_id == span_id(first)
    assert not first.links
    assert all([link.context.span_id for link in other.links] == [span_id(sent)] for other in others)


def span_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1.0, 0.1, 0.01])
def test_ratio_reduces_record_spans(ratio: float) -> None:
    process = TracedProcess(ratio)
    publish(process, REQUESTS)
    begun, sent = process.spans["create orders"], process.spans["send orders"]
    assert begun == pytest.approx(ratio * REQUESTS * RECORDS, rel=0.25)
    assert sent <= min(begun, REQUESTS)
    assert process.spans.total() == begun + sent


def test_ratio_zero_creates_no_spans() -> None:
    process = TracedProcess(0.0)
    publish(process, 1)
    assert not process.spans


def test_current_span_is_continued_at_any_ratio() -> None:
    process = TracedProcess(0.0)
    shift = process.tracer.start("shift", None, SpanKind.INTERNAL, {})
    with process.tracer.within(shift):
        publish(process, 1)
    assert process.spans == {"create orders": RECORDS, "send orders": 1}


def test_new_traces_are_limited_to_complete_ones() -> None:
    few, all_ = TracedProcess(0.99, spans=800), TracedProcess(1.0, spans=800)
    publish(few, 1)
    publish(all_, 1)
    assert few.spans == {"create orders": 100, "send orders": 1}
    assert all_.spans == {"create orders": RECORDS, "send orders": 1}


def test_reached_limit_suspends_tracing_for_a_moment() -> None:
    traces = RecordTraces(TracedProcess(1.0, spans=8).tracer)
    assert traces.begin("orders", (), 5.0) is not None
    assert traces.full_until == 0.0
    assert traces.begin("orders", (), 5.0) is None
    assert 5.0 < traces.full_until < 5.1


async def test_record_near_size_limit_is_not_traced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = TracedProcess(1.0)
    monkeypatch.setattr(tracing, "on", process.tracer)
    config = ProducerConfig(max_request_size=1000)
    async with FakeGateway() as gateway, Producer(gateway.address, config) as producer:
        for size, header in ((950, 0), (200, 0), (200, 750)):
            await producer.publish("orders", b"x" * size, partition=0, headers=[("h", b"x" * header)])
    assert process.spans["create orders"] == 1


@pytest.mark.parametrize(("ratio", "spans"), [(1.0, 1 << 30), (0.1, 1 << 30), (1.0, 20), (0.0, 1 << 30)])
async def test_producer_adds_trace_headers(ratio: float, spans: int, monkeypatch: pytest.MonkeyPatch) -> None:
    process = TracedProcess(ratio, spans)
    monkeypatch.setattr(tracing, "on", process.tracer)
    async with FakeGateway() as gateway, Producer(gateway.address) as producer:
        for _ in range(RECORDS):
            await producer.send("orders", b"x", partition=0)
        await producer.flush()
        marked = sum(data.count(b"traceparent") for _, data in gateway.produced)
    room = spans - 7  # a trace starts only if enough spans remain
    assert marked == process.spans["create orders"]
    assert marked == pytest.approx(min(ratio * RECORDS, room), rel=0.4)
