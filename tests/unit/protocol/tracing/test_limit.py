"""The limit on spans: a token bucket that reserves room for whole traces."""

from __future__ import annotations

from sharebroker_protocol.tracing.limit import STORY, SpanLimit


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
    limit = SpanLimit(1.0, STORY, clock)
    assert limit.room()
    assert limit.take()
    assert not limit.room()
    assert limit.take()
    clock.now += 2
    assert limit.room()


def test_request_above_burst_takes_full_bucket() -> None:
    clock = Clock()
    limit = SpanLimit(10.0, 10, clock)
    assert limit.take(50)
    clock.now += 4.9
    assert not limit.take(50)
    clock.now += 0.2
    assert limit.take(50)


def test_small_full_burst_has_room() -> None:
    assert SpanLimit(1.0, 2, Clock()).room()
