"""Creates the link for a URL: to a server, to the primary that sentinels report, or to a cluster."""

from __future__ import annotations

from sharebroker_server.redis_link.link.errors import RedisInCluster
from sharebroker_server.redis_link.link.link import LinkSettings, RedisLink
from sharebroker_server.redis_link.link.port import Link
from sharebroker_server.redis_link.topology.cluster import ClusterLink
from sharebroker_server.redis_link.topology.redis_url import Target
from sharebroker_server.redis_link.topology.sentinel import Sentinels, SentinelUrl, is_sentinel_url


async def connect(url: str, *, timeout: float = 5.0, settings: LinkSettings | None = None) -> Link:
    """Connects, with retries for `timeout` seconds. Several hosts are nodes of a cluster.

    Raises RedisUnavailable after that time. Raises RedisUrlInvalid, RedisTooOld, RedisMisconfigured,
    RedisPrimaryUnknown and RedisRefused (a wrong password) at once.
    """
    if is_sentinel_url(url):
        sentinels = Sentinels(SentinelUrl.parse(url))
        return await RedisLink.connect_to(sentinels, timeout=timeout, settings=settings)
    targets = Target.parse_nodes(url)
    if len(targets) == 1:
        try:
            return await RedisLink.connect(url, timeout=timeout, settings=settings)
        except RedisInCluster:
            pass
    return await ClusterLink.connect(targets, timeout=timeout, settings=settings)
