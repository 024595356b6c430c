"""Creation of spans, sampling, and the span limit."""

from __future__ import annotations

import sys

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.tracing.context import TraceContext
from sharebroker_protocol.tracing.limit import STORY, SpanLimit
from sharebroker_protocol.tracing.sampling import Sampling
from sharebroker_protocol.tracing.tracer import Tracer, context_of, link
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


def test_current_span_is_known_only_inside(spans: FinishedSpans) -> None:
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
    tracer = limited(spans, 2 * STORY, ratio)
    assert [tracer.room(None) for _ in range(3)].count(True) == traces
    assert tracer.room(PARENT), "a trace of another process is not a new one"


def test_nothing_begins_or_joins_without_room_for_a_trace(spans: FinishedSpans) -> None:
    tracer = limited(spans, STORY)
    assert tracer.begins()
    assert tracer.joins(PARENT)
    assert not tracer.joins(None)
    assert not tracer.joins(PARENT._replace(flags=0))
    tracer.inner("work", PARENT, {})
    assert not tracer.begins()
    assert not tracer.joins(PARENT)
    assert not tracer.room(PARENT)


@pytest.mark.parametrize(
    ("ratio", "draw", "skipped"), [(1.0, 0.5, 0), (0.5, 0.9, 0), (0.5, 0.2, 2), (0.0, 0.9, sys.maxsize)]
)
def test_ratio_and_random_number_give_the_traces_to_skip(
    spans: FinishedSpans, ratio: float, draw: float, skipped: int
) -> None:
    tracer = limited(spans, STORY, ratio, draw)
    assert tracer.left_out() == skipped
    assert tracer.begins() == (skipped == 0)
