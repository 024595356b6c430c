"""Commands that publish trace what they publish, where OpenTelemetry's environment variables say so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sharebroker.cli.output import say
from sharebroker_protocol.tracing import enabled, settings


@contextmanager
def traced() -> Iterator[None]:
    """Around the work. Raises KafkaError for variables that cannot be."""
    asked = settings.read()
    if asked.traces is None or asked.sampling.never:
        yield
        return
    try:
        from sharebroker_protocol.tracing import setup  # brings OpenTelemetry in
    except ImportError:
        say("Nothing is traced: OpenTelemetry is not installed (pip install 'sharebroker[tracing]').")
        yield
        return
    exporting = setup.begin(asked, {"service.name": "sharebroker-cli"}, _undelivered)
    enabled.turn(exporting.tracer)
    try:
        yield
    finally:
        enabled.turn(None)
        exporting.stop()


def _undelivered(_: str, reason: str) -> None:
    say(f"Traces do not arrive: {reason}")
