"""Tracing of `produce` and `work`, configured by OpenTelemetry's environment variables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sharebroker.cli.output import print_notice
from sharebroker_protocol.tracing import enabled, settings
from sharebroker_protocol.tracing.env_validation import invalid_variables


@contextmanager
def traced() -> Iterator[None]:
    """Traces the work inside, if the variables request it. Raises KafkaError for invalid variables."""
    tracing = settings.read()
    if tracing.traces is None or tracing.sampling.never:
        yield
        return
    try:
        with invalid_variables():
            from sharebroker_protocol.tracing import setup  # imports OpenTelemetry
    except ImportError:
        print_notice("Tracing is off: OpenTelemetry is not installed (pip install 'sharebroker[tracing]').")
        yield
        return
    exporting = setup.begin(tracing, {"service.name": "sharebroker-cli"}, _undelivered)
    enabled.turn(exporting.tracer)
    try:
        yield
    finally:
        enabled.turn(None)
        exporting.stop()


def _undelivered(_: str, reason: str) -> None:
    print_notice(f"Traces cannot be exported: {reason}")
