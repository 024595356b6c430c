"""Waits until a change of the catalog is visible to the next request of a client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import KafkaError
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.gateway.context import Gateway

VISIBLE_WITHIN: Final = 5.0
"""Limit of the wait until this process's metadata cache has a change."""

OTHERS_SEE_WITHIN: Final = 0.1
"""Time within which the metadata caches of other processes have a change."""


async def await_visible(gateway: Gateway, done: Callable[[TopicCatalog], bool], deadline: Deadline) -> None:
    """Waits until a durable change is visible in this metadata cache, and probably in those of other brokers.

    Each broker follows the catalog independently. Without the wait, the next request could reach a broker
    that does not have the change.
    """
    with suppress(KafkaError):
        await gateway.catalog.wait_for(done, min(deadline.remaining(), VISIBLE_WITHIN))
        if len(gateway.router.members) > 1:
            await asyncio.sleep(OTHERS_SEE_WITHIN)
