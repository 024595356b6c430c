"""Lines about clients, never a flood of them."""

from __future__ import annotations

from structlog.testing import capture_logs

from sharebroker_server.gateway.kafka.connection.rate_limited_log import AT_ONCE, Complaints


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_so_many_lines_at_once_and_one_a_second() -> None:
    clock = Clock()
    complaints = Complaints(clock)
    with capture_logs() as log:
        for _ in range(AT_ONCE + 30):
            complaints.tell("closed", reason="it lied")
        assert [line["reason"] for line in log] == ["it lied"] * AT_ONCE
        complaints.tell_left_out()
        clock.now += 0.9
        complaints.tell("closed")
        assert len(log) == AT_ONCE
        clock.now += 0.2
        complaints.tell_left_out()
        assert (log[-1]["event"], log[-1]["lines"]) == ("lines about Kafka clients were left out", 31)
        clock.now += 3600
        complaints.tell_left_out()
        for _ in range(AT_ONCE + 30):
            complaints.tell("closed")
        assert len(log) == 2 * AT_ONCE + 1


def test_failures_of_ours_are_errors() -> None:
    with capture_logs() as log:
        Complaints().tell("a request failed", failed=ValueError("odd"), api="Metadata")
        Complaints().tell("closed")
    assert [(line["log_level"], line.get("api")) for line in log] == [
        ("error", "Metadata"),
        ("warning", None),
    ]
    assert isinstance(log[0]["exc_info"], ValueError)
