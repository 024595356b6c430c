"""The asyncio client: `ShareConsumer`, `Producer`, `Admin` and `DeadLetters`, each loaded on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sharebroker.aio.admin import Admin
    from sharebroker.aio.consumer import ShareConsumer
    from sharebroker.aio.dead_letters import DeadLetters
    from sharebroker.aio.producer import Producer

_HOME_OF: Final = {
    "Admin": "admin",
    "DeadLetters": "dead_letters",
    "Producer": "producer",
    "ShareConsumer": "consumer",
}

__all__ = ["Admin", "DeadLetters", "Producer", "ShareConsumer"]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
