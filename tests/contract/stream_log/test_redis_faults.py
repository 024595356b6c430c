"""The log when Redis loses scripts, is out of memory, is unavailable or does not reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from sharebroker_server.leases.redis import RedisLeaseStore
from sharebroker_server.redis_link.link import LinkSettings, RedisLink
from sharebroker_server.stream_log.port import (
    Entry,
    LogNotWritten,
    LogOutcomeUnknown,
    LogOutOfOrder,
    LogRefused,
    LogUnavailable,
)
from sharebroker_server.stream_log.redis import RedisStreamLog
from tests.testkit.proxy import FaultProxy
from tests.testkit.servers import Server, binaries, running

SHARD = "share-coordinator:7"
QUICK = LinkSettings(stall=2.0, attempt=1.0, backoff=0.01, backoff_max=0.05)


@pytest.fixture(params=sorted(binaries()))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Starts a server for one test, with an append-only file."""
    with running(request.param, "--appendonly", "yes", "--appendfsync", "always") as own:
        yield own


@pytest.fixture
async def link(server: Server) -> AsyncIterator[RedisLink]:
    link = await RedisLink.connect(server.url, settings=QUICK)
    yield link
    await link.close()


async def owned(link: RedisLink) -> int:
    return (await RedisLeaseStore(link).claim(SHARD, "1/1", 60.0)).epoch


async def test_a_flushed_script_is_sent_again(link: RedisLink) -> None:
    log, epoch = RedisStreamLog(link), await owned(link)
    await log.append(SHARD, epoch, 1, [b"a"])
    await link.call("SCRIPT", "FLUSH", timeout=5.0)
    await asyncio.gather(*[log.append(SHARD, epoch, 2 + i, [b"b"]) for i in range(5)])
    assert await log.last_position(SHARD) == 6


async def test_full_memory_accepts_appends_and_trims(link: RedisLink) -> None:
    log, epoch = RedisStreamLog(link), await owned(link)
    await log.append(SHARD, epoch, 1, [b"a", b"b"])
    await link.call("CONFIG", "SET", "maxmemory", 1, timeout=5.0)
    await log.append(SHARD, epoch, 3, [b"c"])
    await log.trim(SHARD, epoch, 2)
    assert await RedisLeaseStore(link).renew({SHARD: epoch}, "1/1", 60.0) == [True]
    assert [entry.position for entry in await log.read(SHARD, 0, 10)] == [2, 3]


async def test_replica_rejects_appends(link: RedisLink) -> None:
    log, epoch = RedisStreamLog(link), await owned(link)
    await link.call("REPLICAOF", "127.0.0.1", 1, timeout=5.0)
    with pytest.raises(LogRefused):
        await log.append(SHARD, epoch, 1, [b"a"])


async def test_log_of_the_wrong_type_is_rejected(link: RedisLink) -> None:
    log, epoch = RedisStreamLog(link), await owned(link)
    await link.call("SET", f"sharebroker:{{{SHARD}}}:log", "x", timeout=5.0)
    with pytest.raises(LogNotWritten, match="WRONGTYPE"):
        await log.append(SHARD, epoch, 1, [b"a"])
    with pytest.raises(LogUnavailable, match="WRONGTYPE"):
        await log.read(SHARD, 0, 1)
    with pytest.raises(LogUnavailable, match="WRONGTYPE"):
        await log.last_position(SHARD)


async def test_restarted_server_keeps_acknowledged_appends(server: Server, link: RedisLink) -> None:
    log, epoch = RedisStreamLog(link), await owned(link)
    await log.append(SHARD, epoch, 1, [b"a"])
    server.kill()
    with pytest.raises((LogNotWritten, LogOutcomeUnknown)):
        await log.append(SHARD, epoch, 2, [b"b"])
    with pytest.raises(LogNotWritten):  # known to be unavailable by now
        await log.append(SHARD, epoch, 2, [b"b"])
    with pytest.raises(LogNotWritten):
        await log.trim(SHARD, epoch, 2)
    with pytest.raises(LogNotWritten):
        await log.delete(SHARD)
    with pytest.raises(LogUnavailable):
        await log.read(SHARD, 0, 10)
    with pytest.raises(LogUnavailable):
        await log.last_position(SHARD)
    server.restart()
    await link.ready(10.0)
    await log.append(SHARD, epoch, 2, [b"b"])
    assert await log.read(SHARD, 0, 10) == [Entry(1, b"a"), Entry(2, b"b")]


async def test_append_with_lost_reply_has_unknown_outcome(server: Server, link: RedisLink) -> None:
    epoch = await owned(link)
    async with FaultProxy(server.port) as proxy:
        through = await RedisLink.connect(proxy.url, settings=QUICK)
        log = RedisStreamLog(through)
        await log.append(SHARD, epoch, 1, [b"a"])
        proxy.swallow_replies = True
        with pytest.raises(LogOutcomeUnknown):
            await log.append(SHARD, epoch, 2, [b"b"])
        proxy.heal()
        await through.ready(10.0)
        assert await log.last_position(SHARD) == 2
        with pytest.raises(LogOutOfOrder):
            await log.append(SHARD, epoch, 2, [b"again"])
        await through.close()
