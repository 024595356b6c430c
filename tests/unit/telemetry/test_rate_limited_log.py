"""The rate limit of log lines."""

from __future__ import annotations

from structlog.testing import capture_logs

from sharebroker_server.telemetry.rate_limited_log import BURST, RateLimitedLog


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_of_lines_then_one_per_second() -> None:
    clock = Clock()
    reasons = RateLimitedLog("lines dropped", clock)
    with capture_logs() as log:
        for _ in range(BURST + 30):
            reasons.log("closed", reason="it lied")
        assert [line["reason"] for line in log] == ["it lied"] * BURST
        reasons.log_dropped()
        clock.now += 0.9
        reasons.log("closed")
        assert len(log) == BURST
        clock.now += 0.2
        reasons.log_dropped()
        assert (log[-1]["event"], log[-1]["lines"]) == ("lines dropped", 31)
        clock.now += 3600
        reasons.log_dropped()
        for _ in range(BURST + 30):
            reasons.log("closed")
        assert len(log) == 2 * BURST + 1


def test_failures_are_logged_as_errors() -> None:
    with capture_logs() as log:
        RateLimitedLog("lines dropped").log("kafka request failed", failed=ValueError("odd"), api="Metadata")
        RateLimitedLog("lines dropped").log("closed")
    assert [(line["log_level"], line.get("api")) for line in log] == [
        ("error", "Metadata"),
        ("warning", None),
    ]
    assert isinstance(log[0]["exc_info"], ValueError)
