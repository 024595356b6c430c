"""The link that a URL asks for: to a server, to the one that sentinels tell of, or to a whole cluster."""

from __future__ import annotations

from sharebroker_server.redis_link.link.errors import RedisInCluster
from sharebroker_server.redis_link.link.link import LinkSettings, RedisLink
from sharebroker_server.redis_link.link.port import Link
from sharebroker_server.redis_link.topology.cluster import ClusterLink
from sharebroker_server.redis_link.topology.redis_url import Target
from sharebroker_server.redis_link.topology.sentinel import Named, Sentinels, by_sentinels


async def connect(url: str, *, timeout: float = 5.0, settings: LinkSettings | None = None) -> Link:
    """Connect, trying again for `timeout` seconds while nobody answers. Several hosts are nodes of a cluster.

    Raises RedisUnavailable when nobody did; RedisUrlInvalid, RedisTooOld, RedisUnfit, RedisPrimaryUnknown
    and RedisRefused (a wrong password) at once.
    """
    if by_sentinels(url):
        sentinels = Sentinels(Named.parse(url))
        return await RedisLink.connect_to(sentinels, timeout=timeout, settings=settings)
    targets = Target.several(url)
    if len(targets) == 1:
        try:
            return await RedisLink.connect(url, timeout=timeout, settings=settings)
        except RedisInCluster:
            pass
    return await ClusterLink.connect(targets, timeout=timeout, settings=settings)
