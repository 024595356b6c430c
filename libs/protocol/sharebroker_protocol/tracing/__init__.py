"""Tracing with OpenTelemetry: sampling, trace context in record headers, a limit on spans.

OpenTelemetry is imported only by `setup` and `tracer`, unless the application imported it itself. Traced code
checks `on` first, so that disabled tracing costs one look-up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sharebroker_protocol.tracing.tracer import Tracer

on: Tracer | None = None
"""The tracer of the process; None if tracing is off."""


def turn(tracer: Tracer | None) -> None:
    """Sets or removes the process's tracer."""
    global on  # noqa: PLW0603 - tracing is a property of the process
    on = tracer
