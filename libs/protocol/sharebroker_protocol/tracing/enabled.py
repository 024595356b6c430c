"""Whether this process traces. What may be traced looks here first: off, it costs the look."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sharebroker_protocol.tracing.tracer import Tracer

on: Tracer | None = None
"""The process's tracer; None: nothing is traced."""


def turn(tracer: Tracer | None) -> None:
    """On, or off."""
    global on  # noqa: PLW0603 - it is the process that traces, or not
    on = tracer
