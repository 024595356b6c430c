"""Counts of gRPC calls."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.rpc.call_metrics import OK, CallCounts


def test_calls_are_counted_by_outcome() -> None:
    counts = CallCounts()
    method = counts.of("/sharebroker.gateway.v1.ShareService/ShareFetch")
    assert counts.of("/sharebroker.gateway.v1.ShareService/ShareFetch") is method
    for failure in (None, KafkaError(ErrorCode.INVALID_REQUEST), RuntimeError("bug")):
        method.in_flight += 1
        if failure is not None:
            method.failed(failure)
        method.ended("" if failure else OK)
    families = {family.name: list(family.samples) for family in counts.families()}
    calls = {labels[3]: value for labels, value, _ in families["sharebroker_rpc_calls_total"]}
    assert (calls["OK"], calls["INTERNAL"], sum(calls.values())) == (1, 1, 3)
    ((labels, value, _),) = families["sharebroker_rpc_errors_total"]
    assert (labels, value) == (("method", "ShareService/ShareFetch", "error", "INVALID_REQUEST"), 1)
    ((_, in_flight, _),) = families["sharebroker_rpc_in_flight"]
    assert in_flight == 0
