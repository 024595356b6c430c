"""Sampling of traces, and the limit on spans."""

from __future__ import annotations

import sys

from sharebroker_protocol.tracing.context import TraceContext
from sharebroker_protocol.tracing.sampling import LOW, SPANS_PER_TRACE, Sampling, SpanLimit

KEPT, DROPPED = TraceContext(1, 1), TraceContext(1, 1, flags=0)


def test_parent_based_sampler_uses_decision_of_parent() -> None:
    never = Sampling(0.0, parent_based=True)
    assert (never.joins(KEPT), never.joins(DROPPED)) == (True, False)
    assert not never.never  # others may keep theirs


def test_ratio_uses_low_half_of_trace_id() -> None:
    half = Sampling(0.5, parent_based=False)
    assert half.joins(TraceContext((7 << 64) | (LOW // 2), 1, flags=0))
    assert not half.joins(TraceContext((7 << 64) | LOW, 1))


def test_ratio_0_samples_nothing_and_1_everything() -> None:
    assert Sampling(1.0, parent_based=False).left_out(0.5) == 0
    assert Sampling(0.0, parent_based=True).left_out(0.5) == sys.maxsize
    assert Sampling(1.0, parent_based=False).joins(DROPPED)
    assert Sampling(0.0, parent_based=False).never


def test_one_random_number_yields_skip_count() -> None:
    """One random number per trace: each is skipped with a probability of three quarters."""
    quarter = Sampling(0.25, parent_based=False)
    left_out = [quarter.left_out(1 - lot / 4096) for lot in range(4096)]
    for most in range(8):
        assert abs(sum(1 for count in left_out if count <= most) - 4096 * (1 - 0.75 ** (most + 1))) <= 1
    assert quarter.left_out(1.0) == 0
    assert Sampling(5e-324, parent_based=False).left_out(0.5) == sys.maxsize


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_span_limit_allows_rate() -> None:
    clock = Clock()
    limit = SpanLimit(10.0, 20, clock)
    assert [limit.take() for _ in range(21)] == [True] * 20 + [False]
    clock.now += 0.5
    assert [limit.take() for _ in range(6)] == [True] * 5 + [False]
    clock.now += 1000
    assert sum(limit.take() for _ in range(100)) == 20


def test_trace_starts_only_if_it_fits_limit() -> None:
    clock = Clock()
    limit = SpanLimit(1.0, SPANS_PER_TRACE, clock)
    assert limit.has_room()
    assert limit.take()
    assert not limit.has_room()
    assert limit.take()
    clock.now += 2
    assert limit.has_room()


def test_request_above_burst_takes_full_bucket() -> None:
    clock = Clock()
    limit = SpanLimit(10.0, 10, clock)
    assert limit.take(50)
    clock.now += 4.9
    assert not limit.take(50)
    clock.now += 0.2
    assert limit.take(50)


def test_small_full_burst_has_room() -> None:
    assert SpanLimit(1.0, 2, Clock()).has_room()
