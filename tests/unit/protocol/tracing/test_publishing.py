"""How many spans are made of what is published, and which records they are of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from sharebroker.aio import Producer
from sharebroker.producer.config import ProducerConfig
from sharebroker_protocol.gateway.v1.produce_pb2 import PublishRecord
from sharebroker_protocol.tracing import enabled
from sharebroker_protocol.tracing.limit import SpanLimit
from sharebroker_protocol.tracing.publishing import RecordTraces
from sharebroker_protocol.tracing.sampling import Sampling
from sharebroker_protocol.tracing.tracer import Tracer
from sharebroker_server.gateway.produce.record_batching import PublishTraces
from sharebroker_server.leader_calls.values import AppendResult
from tests.unit.client.fake_gateway import FakeGateway

REQUESTS, RECORDS = 50, 200


class Told:
    """A process that traces a ratio of what begins there, and what it made."""

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


def publish(told: Told, requests: int) -> None:
    """Each of them `RECORDS` records of one partition."""
    for _ in range(requests):
        traces = PublishTraces("orders", RecordTraces(told.tracer))
        for index in range(RECORDS):
            traces.begin(PublishRecord(value=b"x"), 0, index)
        traces.completed([AppendResult("t", 0)])


def test_record_spans_link_to_send_span() -> None:
    told = Told(1.0)
    publish(told, 1)
    sent, first, *others = told.finished
    assert [link.context.span_id for link in sent.links] == [span_id(other) for other in others[:128]]
    assert sent.parent is not None
    assert sent.parent.span_id == span_id(first)
    assert not first.links
    assert all([link.context.span_id for link in other.links] == [span_id(sent)] for other in others)


def span_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


@pytest.mark.parametrize("ratio", [1.0, 0.1, 0.01])
def test_ratio_reduces_record_spans(ratio: float) -> None:
    told = Told(ratio)
    publish(told, REQUESTS)
    begun, sent = told.spans["create orders"], told.spans["send orders"]
    assert begun == pytest.approx(ratio * REQUESTS * RECORDS, rel=0.25)
    assert sent <= min(begun, REQUESTS)
    assert told.spans.total() == begun + sent


def test_ratio_zero_creates_no_spans() -> None:
    told = Told(0.0)
    publish(told, 1)
    assert not told.spans


def test_current_span_is_continued_at_any_ratio() -> None:
    told = Told(0.0)
    shift = told.tracer.start("shift", None, SpanKind.INTERNAL, {})
    with told.tracer.within(shift):
        publish(told, 1)
    assert told.spans == {"create orders": RECORDS, "send orders": 1}


def test_new_traces_are_limited_to_complete_ones() -> None:
    few, all_ = Told(0.99, spans=800), Told(1.0, spans=800)
    publish(few, 1)
    publish(all_, 1)
    assert few.spans == {"create orders": 100, "send orders": 1}
    assert all_.spans == {"create orders": RECORDS, "send orders": 1}


def test_reached_limit_suspends_tracing_for_a_moment() -> None:
    traces = RecordTraces(Told(1.0, spans=8).tracer)
    assert traces.begin("orders", (), 5.0) is not None
    assert traces.full_until == 0.0
    assert traces.begin("orders", (), 5.0) is None
    assert 5.0 < traces.full_until < 5.1


async def test_record_near_size_limit_is_not_traced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = Told(1.0)
    monkeypatch.setattr(enabled, "on", told.tracer)
    config = ProducerConfig(max_request_size=1000)
    async with FakeGateway() as gateway, Producer(gateway.address, config) as producer:
        for size, header in ((950, 0), (200, 0), (200, 750)):
            await producer.publish("orders", b"x" * size, partition=0, headers=[("h", b"x" * header)])
    assert told.spans["create orders"] == 1


@pytest.mark.parametrize(("ratio", "spans"), [(1.0, 1 << 30), (0.1, 1 << 30), (1.0, 20), (0.0, 1 << 30)])
async def test_producer_adds_trace_headers(ratio: float, spans: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(ratio, spans)
    monkeypatch.setattr(enabled, "on", told.tracer)
    async with FakeGateway() as gateway, Producer(gateway.address) as producer:
        for _ in range(RECORDS):
            await producer.send("orders", b"x", partition=0)
        await producer.flush()
        marked = sum(data.count(b"traceparent") for _, data in gateway.produced)
    room = spans - 7  # as long as there is enough for a story
    assert marked == told.spans["create orders"]
    assert marked == pytest.approx(min(ratio * RECORDS, room), rel=0.4)
