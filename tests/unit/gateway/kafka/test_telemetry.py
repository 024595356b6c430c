"""The metrics of requests."""

from __future__ import annotations

from sharebroker_server.gateway.kafka.telemetry import RequestMetrics


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
