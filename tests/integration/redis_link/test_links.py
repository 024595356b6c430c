"""The link to a primary that sentinels name: real sentinels, and all their possible replies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
import redis

from sharebroker_server.redis_link.link import RedisLink
from sharebroker_server.redis_link.links import connect
from sharebroker_server.redis_link.port import (
    Link,
    RedisError,
    RedisMisconfigured,
    RedisPrimaryUnknown,
    RedisRefused,
    RedisUnavailable,
)
from sharebroker_server.redis_link.sentinel import Sentinels, SentinelUrl
from sharebroker_server.redis_link.server import Target
from tests.testkit.proxy import FaultProxy
from tests.testkit.sentinels import NAME, Monitored, monitored
from tests.testkit.servers import binaries, free_port
from tests.testkit.waiting import eventually, until

pytestmark = [pytest.mark.xdist_group("redis-sentinel"), pytest.mark.timeout(300)]

LOGIN = "me:hush@"
USER = ("--user", "me", "on", ">hush", "~*", "&*", "+@all")
LOCKED = (*USER, "--masteruser", "me", "--masterauth", "hush", "--requirepass", "other")


@pytest.fixture(scope="module")
def servers() -> Iterator[Monitored]:
    with monitored("valkey", "--repl-diskless-sync-delay", "0") as servers:
        yield servers


async def counted(link: Link) -> int | None:
    """Returns the next number, or None while Redis is unavailable."""
    try:
        return int(await link.call("INCR", "n", timeout=1.0))
    except RedisRefused:
        raise
    except RedisError:
        return None


async def resolved(sentinels: Sentinels) -> Target:
    """Returns the sentinels' target, as soon as one of them replies in time."""
    found: list[Target] = []

    async def done() -> bool:
        with suppress(RedisUnavailable):
            found.append(await sentinels.find())
        return bool(found)

    await eventually(done, 30.0)
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(binaries()))
async def test_the_promoted_replica_is_found(kind: str) -> None:
    with monitored(kind, "--repl-diskless-sync-delay", "0", *LOCKED, login=LOGIN) as servers:
        link = await connect(servers.url, timeout=30.0)
        try:
            renewed: list[int] = []
            link.on_new_server.append(lambda: renewed.append(link.server_incarnation))
            assert await counted(link) == 1
            until(servers.in_sync, 60.0)
            victim = servers.primary()
            victim.kill()
            got: list[int] = []

            async def taken_over() -> bool:
                number = await counted(link)
                got.extend([number] if number is not None else [])
                return bool(got)

            await eventually(taken_over, 90.0)
            assert got[0] >= 2
            assert servers.primary() is not victim
            await eventually(lambda: renewed and renewed[-1] == link.server_incarnation > 0)
        finally:
            await link.close()


async def test_the_sentinel_that_responded_is_queried_first(servers: Monitored) -> None:
    async with FaultProxy(servers.sentinels[0].port) as proxy:
        port = servers.sentinels[1].port
        sentinels = Sentinels(
            SentinelUrl.parse(f"redis+sentinel://{proxy.host}:{proxy.port},127.0.0.1:{port}/{NAME}")
        )
        proxy.black_hole()
        found = await resolved(sentinels)
        assert found.port in [server.port for server in servers.servers]
        assert sentinels._order[0].port == port
        proxy.heal()
        assert await resolved(sentinels) == found
        assert sentinels._order[0].port == port


async def test_sentinels_without_the_name_are_reported(servers: Monitored) -> None:
    with pytest.raises(RedisPrimaryUnknown, match="has a primary 'other': use the name"):
        await connect(servers.url.replace(NAME, "other"), timeout=30.0)


async def test_an_unreachable_sentinel_may_have_the_name(servers: Monitored) -> None:
    url = f"redis+sentinel://127.0.0.1:{servers.sentinels[0].port},127.0.0.1:{free_port()}/other"
    with pytest.raises(RedisUnavailable, match="has no primary 'other'"):
        await connect(url, timeout=3.0)


async def test_unreachable_sentinels_are_reported() -> None:
    with pytest.raises(RedisUnavailable, match="no sentinel has the address of the primary"):
        await connect(f"redis+sentinel://:hush@127.0.0.1:{free_port()}/{NAME}", timeout=0.5)


async def test_sentinel_url_of_a_server_and_server_url_of_a_sentinel_are_rejected(servers: Monitored) -> None:
    with pytest.raises(RedisUnavailable, match="it is no sentinel"):
        await connect(f"redis+sentinel://127.0.0.1:{servers.servers[0].port}/{NAME}", timeout=3.0)
    with pytest.raises(
        RedisMisconfigured, match=r"it is a sentinel: name the primary, as in redis\+sentinel://"
    ):
        await connect(servers.sentinels[0].url, timeout=10.0)


async def test_credentials_unknown_to_sentinels_are_ignored(servers: Monitored) -> None:
    sentinels = Sentinels(SentinelUrl.parse(servers.url.replace("://", "://me:hush@")))
    assert (await resolved(sentinels)).user == "me"


class Places:
    """Connects to each of these in turn and then always to the last: sentinels that detect a promotion."""

    def __init__(self, *targets: Target) -> None:
        self._targets = list(targets)

    async def find(self) -> Target:
        return self._targets.pop(0) if len(self._targets) > 1 else self._targets[0]


async def test_link_leaves_a_replica_for_the_primary(servers: Monitored) -> None:
    until(servers.is_healthy, 90.0)
    primary = servers.primary()
    [replica] = [server for server in servers.servers if server is not primary]
    places = Places(Target.parse(replica.url), Target.parse(primary.url))
    link = await RedisLink.connect(places, timeout=30.0)
    try:
        assert await counted(link)
    finally:
        await link.close()


@pytest.mark.slow
async def test_link_follows_a_planned_fail_over(servers: Monitored) -> None:
    link = await connect(servers.url, timeout=30.0)
    try:
        until(servers.is_healthy, 90.0)
        old = servers.primary()
        await eventually(lambda: _fail_over_requested(servers), 60.0)
        await eventually(lambda: servers.primary() is not old, 90.0)

        async def written() -> bool:
            return await counted(link) is not None and link.server_incarnation > 0

        await eventually(written, 90.0)
    finally:
        await link.close()


def _fail_over_requested(servers: Monitored) -> bool:
    with redis.Redis.from_url(servers.sentinels[0].url) as sentinel, suppress(redis.ResponseError):
        sentinel.execute_command("SENTINEL", "FAILOVER", NAME)
        return True
    return False
