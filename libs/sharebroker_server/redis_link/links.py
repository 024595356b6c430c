"""Creates the link for a URL; metrics of links, and the readiness check."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from sharebroker_server.redis_link.cluster import ClusterLink
from sharebroker_server.redis_link.link import LinkSettings, RedisLink
from sharebroker_server.redis_link.port import Link, RedisError, RedisInCluster
from sharebroker_server.redis_link.sentinel import Sentinels, SentinelUrl, is_sentinel_url
from sharebroker_server.redis_link.server import Target
from sharebroker_server.telemetry.metrics import Family, counter, gauge


async def connect(url: str, *, timeout: float = 5.0, settings: LinkSettings | None = None) -> Link:
    """Connects, with retries for `timeout` seconds. Several hosts are nodes of a cluster.

    Raises RedisUnavailable after that time. Raises RedisUrlInvalid, RedisTooOld, RedisMisconfigured,
    RedisPrimaryUnknown and RedisRefused (a wrong password) at once.
    """
    if is_sentinel_url(url):
        sentinels = Sentinels(SentinelUrl.parse(url))
        return await RedisLink.connect(sentinels, timeout=timeout, settings=settings)
    targets = Target.parse_nodes(url)
    if len(targets) == 1:
        try:
            return await RedisLink.connect(url, timeout=timeout, settings=settings)
        except RedisInCluster:
            pass
    return await ClusterLink.connect(targets, timeout=timeout, settings=settings)


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
