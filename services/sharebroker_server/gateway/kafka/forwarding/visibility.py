"""The wait until a change that the cluster made to topics is visible here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import KafkaError
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.forwarding.upstream import Upstream

VISIBLE_SECONDS: Final = 5.0
"""Longest wait until a changed topic is visible here; the cluster has changed it then."""

LOOK_SECONDS: Final = 0.25
"""Seconds between two looks at the topics: a broker of the cluster may not have the change yet."""


async def until_visible(upstream: Upstream, call: Call[Any], visible: Callable[[TopicCatalog], bool]) -> None:
    """Waits until the catalog has a change, or for VISIBLE_SECONDS.

    Only the owner of the catalog stores it; another process does so after `metadata.max.age.ms`.
    """
    deadline = Deadline(min(call.deadline(call.request.timeout_ms).remaining(), VISIBLE_SECONDS))
    catalog = call.gateway.catalog
    while deadline.remaining() and not visible(catalog.catalog):
        upstream.client.topics_changed.set()
        with suppress(KafkaError):
            await catalog.wait_for(visible, min(deadline.remaining(), LOOK_SECONDS))
