"""Traces in the metadata of calls."""

from __future__ import annotations

from sharebroker_protocol.tracing.context import TraceContext
from sharebroker_server.telemetry.grpc_context import incoming

CONTEXT = TraceContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7)


def test_calls_carry_the_current_span() -> None:
    assert incoming(CONTEXT.headers) == CONTEXT
    assert incoming([("user-agent", "x"), *CONTEXT._replace(state="a=b").headers]) == CONTEXT._replace(
        state="a=b"
    )


def test_calls_without_a_trace_have_no_metadata() -> None:
    assert incoming(None) is None
    assert incoming([("user-agent", "x")]) is None
    assert incoming([("traceparent", "nonsense")]) is None
