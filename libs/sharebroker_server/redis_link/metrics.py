"""Metrics of the links to Redis, and the readiness check."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from sharebroker_server.redis_link.link.errors import RedisError
from sharebroker_server.redis_link.link.link import RedisLink
from sharebroker_server.redis_link.link.port import Link
from sharebroker_server.telemetry.metrics import Family, counter, gauge

_PROBE_TIMEOUT: Final = 0.8
"""Seconds; a kubelet probe waits for one second."""


def link_families(links: Mapping[str, Link]) -> Iterable[Family]:
    """Returns the metric families of the links, by their purpose."""
    named = [(("link", name), link) for name, link in links.items()]
    yield gauge(
        "sharebroker_redis_connected",
        "Whether the connection to Redis is open.",
        ((label, link.connected) for label, link in named),
    )
    yield counter(
        "sharebroker_redis_changes_total",
        "Restarts and fail-overs of Redis that this link detected.",
        ((label, link.server_incarnation) for label, link in named),
    )
    yield gauge(
        "sharebroker_redis_servers",
        "Redis servers that have keys, by product and version.",
        (
            ((*label, "product", product, "version", version), count)
            for label, link in named
            for (product, version), count in sorted(_servers(link).items())
        ),
    )


def _servers(link: Link) -> Counter[tuple[str, str]]:
    servers = (node.server for node in link.nodes if isinstance(node, RedisLink))
    return Counter((server.product, server.version) for server in servers)


async def unreachable(link: Link) -> str:
    """Returns why a server of Redis is unreachable, or "" if all respond."""
    try:
        if not link.connected:
            await link.ready(_PROBE_TIMEOUT)
        await asyncio.gather(*(node.call("PING", timeout=_PROBE_TIMEOUT) for node in link.nodes))
    except RedisError as error:
        return str(error)
    return ""
