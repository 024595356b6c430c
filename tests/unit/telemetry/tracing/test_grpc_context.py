"""Traces in the metadata of calls."""

from __future__ import annotations

from sharebroker_protocol.tracing.context import TraceContext
from sharebroker_server.telemetry.tracing.grpc_context import incoming

CONTEXT = TraceContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7)


def test_a_call_says_in_which_span_it_is_made() -> None:
    assert incoming(CONTEXT.headers) == CONTEXT
    assert incoming([("user-agent", "x"), *CONTEXT._replace(state="a=b").headers]) == CONTEXT._replace(
        state="a=b"
    )


def test_most_calls_say_nothing() -> None:
    assert incoming(None) is None
    assert incoming([("user-agent", "x")]) is None
    assert incoming([("traceparent", "nonsense")]) is None
