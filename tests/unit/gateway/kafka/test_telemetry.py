"""The rate limit of log lines, and the metrics of requests."""

from __future__ import annotations

from structlog.testing import capture_logs

from sharebroker_server.gateway.kafka.telemetry import BURST, RateLimitedLog, RequestMetrics


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_log_lines_are_limited_to_a_burst_then_one_per_second() -> None:
    clock = Clock()
    close_reasons = RateLimitedLog(clock)
    with capture_logs() as log:
        for _ in range(BURST + 30):
            close_reasons.log("closed", reason="it lied")
        assert [line["reason"] for line in log] == ["it lied"] * BURST
        close_reasons.log_dropped()
        clock.now += 0.9
        close_reasons.log("closed")
        assert len(log) == BURST
        clock.now += 0.2
        close_reasons.log_dropped()
        assert (log[-1]["event"], log[-1]["lines"]) == ("kafka client log lines dropped", 31)
        clock.now += 3600
        close_reasons.log_dropped()
        for _ in range(BURST + 30):
            close_reasons.log("closed")
        assert len(log) == 2 * BURST + 1


def test_failures_are_logged_as_errors() -> None:
    with capture_logs() as log:
        RateLimitedLog().log("kafka request failed", failed=ValueError("odd"), api="Metadata")
        RateLimitedLog().log("closed")
    assert [(line["log_level"], line.get("api")) for line in log] == [
        ("error", "Metadata"),
        ("warning", None),
    ]
    assert isinstance(log[0]["exc_info"], ValueError)


def test_requests_are_counted_by_api_and_cached_ones_apart() -> None:
    metrics = RequestMetrics()
    metrics.requests[78] += 2
    metrics.cached[78] += 5
    metrics.failures[76] += 1
    metrics.seconds[78].add_seconds(0.1)
    requests, failures, seconds = metrics.families()
    assert {sample[0]: sample[1] for sample in requests.samples} == {
        ("api", "ShareFetch", "cached", "false"): 2,
        ("api", "ShareFetch", "cached", "true"): 5,
    }
    assert [tuple(sample)[:2] for sample in failures.samples] == [(("api", "ShareGroupHeartbeat"), 1)]
    assert seconds.name == "sharebroker_kafka_request_seconds"
