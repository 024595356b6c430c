"""The link to a primary that sentinels tell of: real ones, and what they may answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
import redis

from sharebroker_server.redis_link.link.errors import (
    RedisError,
    RedisPrimaryUnknown,
    RedisRefused,
    RedisUnavailable,
    RedisUnfit,
)
from sharebroker_server.redis_link.link.link import RedisLink
from sharebroker_server.redis_link.link.port import Link
from sharebroker_server.redis_link.topology.connect import connect
from sharebroker_server.redis_link.topology.redis_url import Target
from sharebroker_server.redis_link.topology.sentinel import Named, Sentinels
from sharebroker_server.testkit.proxy import FaultProxy
from sharebroker_server.testkit.sentinels import NAME, Watched, watched
from sharebroker_server.testkit.servers import binaries, free_port
from sharebroker_server.testkit.waiting import eventually, until

pytestmark = [pytest.mark.xdist_group("redis-sentinel"), pytest.mark.timeout(300)]

LOGIN = "me:hush@"
USER = ("--user", "me", "on", ">hush", "~*", "&*", "+@all")
LOCKED = (*USER, "--masteruser", "me", "--masterauth", "hush", "--requirepass", "other")


@pytest.fixture(scope="module")
def servers() -> Iterator[Watched]:
    with watched("valkey", "--repl-diskless-sync-delay", "0") as servers:
        yield servers


async def counted(link: Link) -> int | None:
    """The next number, or None while that does not go."""
    try:
        return int(await link.call("INCR", "n", timeout=1.0))
    except RedisRefused:
        raise
    except RedisError:
        return None


async def told(sentinels: Sentinels) -> Target:
    """What they say, as soon as one does so in time."""
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
    with watched(kind, "--repl-diskless-sync-delay", "0", *LOCKED, login=LOGIN) as servers:
        link = await connect(servers.url, timeout=30.0)
        try:
            renewed: list[int] = []
            link.on_new_server.append(lambda: renewed.append(link.generation))
            assert await counted(link) == 1
            until(servers.in_step, 60.0)
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
            await eventually(lambda: renewed and renewed[-1] == link.generation > 0)
        finally:
            await link.close()


async def test_last_responsive_sentinel_is_queried_first(servers: Watched) -> None:
    async with FaultProxy(servers.sentinels[0].port) as proxy:
        port = servers.sentinels[1].port
        sentinels = Sentinels(
            Named.parse(f"redis+sentinel://{proxy.host}:{proxy.port},127.0.0.1:{port}/{NAME}")
        )
        proxy.black_hole()
        found = await told(sentinels)
        assert found.port in [server.port for server in servers.servers]
        assert sentinels._order[0].port == port
        proxy.heal()
        assert await told(sentinels) == found
        assert sentinels._order[0].port == port


async def test_sentinels_without_the_primary_name(servers: Watched) -> None:
    with pytest.raises(RedisPrimaryUnknown, match="knows a primary 'other': name it as"):
        await connect(servers.url.replace(NAME, "other"), timeout=30.0)


async def test_unreachable_sentinel_may_have_the_name(servers: Watched) -> None:
    url = f"redis+sentinel://127.0.0.1:{servers.sentinels[0].port},127.0.0.1:{free_port()}/other"
    with pytest.raises(RedisUnavailable, match="knows no 'other'"):
        await connect(url, timeout=3.0)


async def test_no_reachable_sentinel() -> None:
    with pytest.raises(RedisUnavailable, match="no sentinel tells where the primary is"):
        await connect(f"redis+sentinel://:hush@127.0.0.1:{free_port()}/{NAME}", timeout=0.5)


async def test_a_server_is_no_sentinel_and_a_sentinel_no_server(servers: Watched) -> None:
    with pytest.raises(RedisUnavailable, match="it is no sentinel"):
        await connect(f"redis+sentinel://127.0.0.1:{servers.servers[0].port}/{NAME}", timeout=3.0)
    with pytest.raises(RedisUnfit, match=r"it is a sentinel: name the primary, as in redis\+sentinel://"):
        await connect(servers.sentinels[0].url, timeout=10.0)


async def test_sentinels_without_authentication_accept_a_login(servers: Watched) -> None:
    sentinels = Sentinels(Named.parse(servers.url.replace("://", "://me:hush@")))
    assert (await told(sentinels)).user == "me"


class Places:
    """Leads to each of these in turn, the last one for good: sentinels that learn of a promotion."""

    def __init__(self, *targets: Target) -> None:
        self._targets = list(targets)

    async def find(self) -> Target:
        return self._targets.pop(0) if len(self._targets) > 1 else self._targets[0]


async def test_link_leaves_a_server_that_is_not_primary(servers: Watched) -> None:
    until(servers.settled, 90.0)
    primary = servers.primary()
    [replica] = [server for server in servers.servers if server is not primary]
    places = Places(Target.parse(replica.url), Target.parse(primary.url))
    link = await RedisLink.connect_to(places, timeout=30.0)
    try:
        assert await counted(link)
    finally:
        await link.close()


@pytest.mark.slow
async def test_a_planned_change_of_the_primary_is_followed(servers: Watched) -> None:
    link = await connect(servers.url, timeout=30.0)
    try:
        until(servers.settled, 90.0)
        old = servers.primary()
        await eventually(lambda: _told_to_fail_over(servers), 60.0)
        await eventually(lambda: servers.primary() is not old, 90.0)

        async def written() -> bool:
            return await counted(link) is not None and link.generation > 0

        await eventually(written, 90.0)
    finally:
        await link.close()


def _told_to_fail_over(servers: Watched) -> bool:
    with redis.Redis.from_url(servers.sentinels[0].url) as sentinel, suppress(redis.ResponseError):
        sentinel.execute_command("SENTINEL", "FAILOVER", NAME)
        return True
    return False
