"""Performs the effects of durable decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from sharebroker_server.coordinator_runtime.machine import Effect

_log = structlog.get_logger()

Perform = Callable[[Effect], None]
"""Executes an effect; must not block."""


def no_effects(effect: Effect) -> None:
    """Raises TypeError: the coordinator of this shard has no effects."""
    raise TypeError(f"no code performs the effect {effect!r}")


def perform_all(perform: Perform, effects: Iterable[Effect], shard: str) -> None:
    """Performs effects in order; an error is logged and does not stop the next ones."""
    for effect in effects:
        try:
            perform(effect)
        except Exception:
            _log.exception("effect failed", shard=shard, effect=repr(effect))
