"""The Redis link under closed connections, dead, unresponsive and overloaded servers, and invalid replies."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
import redis

from sharebroker_server.redis_link.link import LinkSettings, RedisLink
from sharebroker_server.redis_link.port import (
    RedisMisconfigured,
    RedisOutcomeUnknown,
    RedisRefused,
    RedisTooOld,
    RedisUnavailable,
    within,
)
from tests.testkit.proxy import FaultProxy
from tests.testkit.servers import Server, binaries, running
from tests.testkit.waiting import eventually

QUICK = LinkSettings(stall=2.0, attempt=0.5, backoff=0.01, backoff_max=0.05)
PATIENT = replace(QUICK, stall=600.0)


@pytest.fixture(params=sorted(binaries()))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with running(request.param, "--appendonly", "yes") as own:
        yield own


@pytest.fixture
async def proxy(redis_url: str) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(int(redis_url.rpartition(":")[2])) as proxy:
        yield proxy


@pytest.fixture
async def link(proxy: FaultProxy) -> AsyncIterator[RedisLink]:
    link = await RedisLink.connect(proxy.url, settings=QUICK)
    yield link
    await link.close()


@pytest.fixture
async def patient(proxy: FaultProxy) -> AsyncIterator[RedisLink]:
    """Provides a link whose reply timeout the test controls, independent of the machine's speed."""
    link = await RedisLink.connect(proxy.url, settings=PATIENT)
    yield link
    await link.close()


async def test_a_closed_connection_makes_the_outcome_unknown(proxy: FaultProxy, link: RedisLink) -> None:
    proxy.swallow_replies = True
    sent = [link.send("INCR", "n") for _ in range(3)]
    await asyncio.sleep(0.02)  # in flight; its progress does not matter
    await proxy.cut()
    for command in sent:
        with pytest.raises(RedisOutcomeUnknown):
            await command
    proxy.heal()
    await link.ready(5.0)
    assert await link.call("INCR", "m", timeout=5.0) == 1


async def test_unsent_command_is_reported_as_not_executed(proxy: FaultProxy, link: RedisLink) -> None:
    connection = link._connection
    assert connection is not None
    connection.abort()  # the loop detects it in its next iteration, before it flushes
    command = link.send("INCR", "n")
    with pytest.raises(RedisUnavailable):
        await command
    await link.ready(5.0)
    assert await link.call("GET", "n", timeout=5.0) is None


async def test_commands_fail_at_once_while_redis_is_unavailable(proxy: FaultProxy, link: RedisLink) -> None:
    await proxy.refuse()
    await eventually(lambda: not link.connected)
    with pytest.raises(RedisUnavailable, match="is unavailable"):
        await link.send("PING")
    with pytest.raises(RedisUnavailable):
        await link.ready(0.05)
    await proxy.accept()
    await link.ready(5.0)
    assert await link.call("PING", timeout=5.0) == b"PONG"


async def test_unresponsive_server_breaks_the_connection(proxy: FaultProxy, link: RedisLink) -> None:
    proxy.black_hole()
    with pytest.raises(RedisOutcomeUnknown):
        await link.send("PING")
    assert not link.connected
    proxy.heal()
    await link.ready(5.0)
    assert await link.call("PING", timeout=5.0) == b"PONG"


async def test_slow_but_steady_replies_do_not_break_it(patient: RedisLink, proxy: FaultProxy) -> None:
    connection = patient._connection
    assert connection is not None
    first, second = patient.send("PING"), patient.send("BLPOP", "list", "0")
    connection._last_received -= (
        PATIENT.stall
    )  # the first reply takes that long, and the second has not arrived by then
    assert await first == b"PONG"
    assert connection._watchdog is not None
    connection._watchdog.cancel()
    connection._watch()
    other = await RedisLink.connect(proxy.url, settings=PATIENT)
    await other.send("LPUSH", "list", "a")
    assert await second == [b"list", b"a"]
    assert patient._connection is connection
    await other.close()


async def test_idle_link_stays_open(link: RedisLink) -> None:
    connection = link._connection
    assert connection is not None
    await link.send("PING")
    await eventually(lambda: connection._watchdog is None)
    assert link._connection is connection
    assert await link.send("PING") == b"PONG"


async def test_idle_time_before_a_command_does_not_count(proxy: FaultProxy, patient: RedisLink) -> None:
    connection = patient._connection
    assert connection is not None
    await patient.send("PING")
    assert connection._watchdog is not None
    connection._watchdog.cancel()
    connection._last_received -= PATIENT.stall  # no command was sent during that time
    proxy.delay = 0.05
    reply = patient.send("PING")
    connection._watch()  # the watchdog of the first command runs while the second is in flight
    assert await reply == b"PONG"
    assert patient._connection is connection


async def test_scripts_are_reloaded_after_a_restart(server: Server) -> None:
    link = await RedisLink.connect(server.url, settings=QUICK)
    script = link.script("return ARGV[1]")
    assert await within(5.0, script.send([], ["a"])) == b"a"
    server.kill()
    await eventually(lambda: not link.connected)
    server.restart()
    await link.ready(10.0)
    assert await link.call("SCRIPT", "EXISTS", script._sha, timeout=5.0) == [1]
    assert await within(5.0, script.send([], ["b"])) == b"b"
    await link.close()


async def test_send_queue_of_one_loop_iteration_is_bounded(redis_url: str) -> None:
    link = await RedisLink.connect(redis_url, settings=LinkSettings(queue_bytes=1000))
    replies = await asyncio.gather(*[link.send("ECHO", "x" * 100) for _ in range(20)], return_exceptions=True)
    rejected = [reply for reply in replies if isinstance(reply, RedisUnavailable)]
    assert rejected
    assert replies[: 20 - len(rejected)] == [b"x" * 100] * (20 - len(rejected))
    assert (
        await link.call("ECHO", "y" * 5000, timeout=5.0) == b"y" * 5000
    )  # a single command may have any size
    await link.close()


async def test_the_send_queue_of_a_frozen_server_is_bounded(server: Server) -> None:
    link = await RedisLink.connect(server.url, settings=LinkSettings(queue_bytes=1_000_000))
    server.process.send_signal(signal.SIGSTOP)
    sent = []
    for _ in range(200):
        sent.append(link.send("SET", "k", b"x" * 500_000))
        await asyncio.sleep(0)
        if sent[-1].done():
            break
    assert isinstance(sent[-1].exception(), RedisUnavailable)
    server.process.send_signal(signal.SIGCONT)
    assert await asyncio.gather(*sent[:-1]) == [b"OK"] * (len(sent) - 1)
    assert await link.call("PING", timeout=5.0) == b"PONG"
    await link.close()


@asynccontextmanager
async def impostor(*responses: bytes) -> AsyncIterator[str]:
    """The URL of a server that sends these replies in order and then repeats the last one."""
    remaining = list(responses)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(65536):
                writer.write(remaining.pop(0) if len(remaining) > 1 else remaining[0])
        except ConnectionError:
            pass  # the link closed the connection
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            talks.set()

    talks = asyncio.Event()
    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await talks.wait()


def info(release: str, ping: bytes = b"+PONG\r\n") -> bytes:
    """The replies to INFO and to the PING that follows it."""
    return b"$%d\r\nredis_version:%s\r\n" % (len(release) + 14, release.encode()) + ping


async def test_an_old_server_is_rejected_in_one_sentence() -> None:
    async with impostor(info("6.2.14")) as url:
        with pytest.raises(RedisTooOld, match=r"^Redis 6.2.14 is too old: 7.0 or newer is required$"):
            await RedisLink.connect(url)


@pytest.mark.parametrize("response", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+OK\r\n+OK\r\n+OK\r\n"])
async def test_a_server_that_is_not_redis_is_rejected(response: bytes) -> None:
    async with impostor(response) as url:
        with pytest.raises(RedisUnavailable):
            await RedisLink.connect(url, timeout=0.3, settings=QUICK)


async def test_link_waits_for_a_loading_server() -> None:
    loading = b"-LOADING reading the append-only file\r\n"
    async with impostor(info("7.2.0", loading), info("7.2.0")) as url:
        link = await RedisLink.connect(url, settings=QUICK)
        assert link.server.version == "7.2.0"
        await link.close()


async def test_only_a_new_incarnation_increases_the_counter(server: Server) -> None:
    async with FaultProxy(server.port) as proxy:
        link = await RedisLink.connect(proxy.url, settings=QUICK)
        incarnations: list[int] = []
        link.on_new_server.append(lambda: incarnations.append(link.server_incarnation))
        first = link._connection
        await proxy.cut()
        await eventually(lambda: link._connection not in (None, first))
        assert (link.server_incarnation, incarnations) == (0, [])
        server.kill()
        server.restart()
        await eventually(lambda: incarnations)
        assert (link.server_incarnation, incarnations) == (1, [1])
        await link.close()


@pytest.mark.parametrize("kind", sorted(binaries()))
async def test_an_evicting_server_is_rejected_in_one_sentence(kind: str) -> None:
    with (
        running(kind, "--maxmemory-policy", "allkeys-lru") as server,
        pytest.raises(
            RedisMisconfigured, match=r"may evict .* \(maxmemory-policy allkeys-lru\): set it to noeviction$"
        ),
    ):
        await RedisLink.connect(server.url)
    with running(kind, "--maxmemory-policy", "volatile-lru") as server:  # our keys never expire
        link = await RedisLink.connect(server.url)
        await link.close()


async def test_replica_is_not_used_until_promoted(server: Server) -> None:
    with running("valkey", "--replicaof", f"127.0.0.1 {server.port}") as replica:
        with pytest.raises(RedisUnavailable, match="READONLY it is a replica"):
            await RedisLink.connect(replica.url, timeout=0.3, settings=QUICK)
        connecting = asyncio.create_task(RedisLink.connect(replica.url, settings=QUICK))
        with redis.Redis.from_url(replica.url) as control:
            control.execute_command("REPLICAOF", "NO", "ONE")
        link = await connecting
        assert await link.call("SET", "k", 1, timeout=5.0) == b"OK"
        await link.close()


async def test_link_leaves_a_demoted_primary_for_the_new_one(server: Server) -> None:
    with running("valkey") as second:
        async with FaultProxy(server.port) as proxy:
            link = await RedisLink.connect(proxy.url, settings=QUICK)
            demoting = await RedisLink.connect(server.url)
            await demoting.call("REPLICAOF", "127.0.0.1", second.port, timeout=5.0)
            proxy.upstream_port = second.port  # as a name or a virtual address follows the primary
            with pytest.raises((RedisRefused, RedisOutcomeUnknown, RedisUnavailable)):
                await link.call("SET", "k", 1, timeout=5.0)
            await eventually(lambda: link.server_incarnation == 1)
            await link.ready(5.0)
            assert await link.call("SET", "k", 1, timeout=5.0) == b"OK"
            await link.close()
            await demoting.close()
