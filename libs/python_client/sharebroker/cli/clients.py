"""The clients that commands use. Their modules are imported when a command runs, not for its help."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sharebroker import aio
    from sharebroker.blocking.admin import Admin
    from sharebroker.blocking.dead_letters import DeadLetters


def connect_admin(server: str) -> Admin:
    """Returns an administration client. Raises KafkaError INVALID_CONFIG."""
    from sharebroker.blocking.admin import Admin

    return Admin(server)


def connect_async_admin(server: str) -> aio.Admin:
    """Returns an administration client for asyncio. Raises KafkaError INVALID_CONFIG."""
    from sharebroker.aio.admin import Admin

    return Admin(server)


def connect_dead_letters(server: str) -> DeadLetters:
    """Returns a client for dead letters. Raises KafkaError INVALID_CONFIG."""
    from sharebroker.blocking.dead_letters import DeadLetters

    return DeadLetters(server)
