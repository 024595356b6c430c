"""What a link to Redis tells of itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from sharebroker_server.redis_link.link.errors import RedisError
from sharebroker_server.redis_link.link.link import RedisLink
from sharebroker_server.redis_link.link.port import Link
from sharebroker_server.telemetry.metrics import Family, counter, gauge

_ANSWERS_WITHIN: Final = 0.8
"""Seconds; kubelet's probes wait for one."""


def link_families(links: Mapping[str, Link]) -> Iterable[Family]:
    """See Collector; `links` by what they are for."""
    named = [(("link", name), link) for name, link in links.items()]
    yield gauge(
        "sharebroker_redis_connected",
        "Whether Redis can be asked now.",
        ((label, link.connected) for label, link in named),
    )
    yield counter(
        "sharebroker_redis_changes_total",
        "How often another Redis answered than before, or the same one after a restart.",
        ((label, link.generation) for label, link in named),
    )
    yield gauge(
        "sharebroker_redis_servers",
        "Servers that have keys, by what they are.",
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
    """Why Redis cannot be reached, or some of its keys; "" where every server answers."""
    try:
        if not link.connected:
            await link.ready(_ANSWERS_WITHIN)
        await asyncio.gather(*(node.call("PING", timeout=_ANSWERS_WITHIN) for node in link.nodes))
    except RedisError as error:
        return str(error)
    return ""
