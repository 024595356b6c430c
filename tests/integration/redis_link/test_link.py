"""The link against real servers: order, coalescing, deadlines, scripts, log-in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharebroker_server.redis_link.link import RedisLink
from sharebroker_server.redis_link.port import RedisOutcomeUnknown, RedisRefused, RedisUnavailable, within
from tests.testkit.servers import Server, binaries, free_port, running


@pytest.fixture(params=sorted(binaries()))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with running(request.param, "--requirepass", "secret word") as own:
        yield own


async def reads(link: RedisLink) -> int:
    """How many times the server has read from its sockets."""
    stats: bytes = await link.call("INFO", "stats", timeout=5.0)
    return next(
        int(line.partition(b":")[2]) for line in stats.splitlines() if line.startswith(b"total_reads")
    )


async def test_replies_arrive_in_order_and_as_bytes(redis_link: RedisLink) -> None:
    replies = await asyncio.gather(*[redis_link.send("ECHO", f"é{index}") for index in range(1000)])
    assert replies == [f"é{index}".encode() for index in range(1000)]


async def test_commands_of_one_loop_iteration_share_a_write(redis_link: RedisLink) -> None:
    before = await reads(redis_link)
    await asyncio.gather(*[redis_link.send("PING") for _ in range(500)])
    assert await reads(redis_link) - before < 20


async def test_binary_values_round_trip(redis_link: RedisLink) -> None:
    value = bytes(range(256)) * 4096
    await redis_link.call("SET", b"\x00key", value, timeout=5.0)
    assert await redis_link.call("GET", b"\x00key", timeout=5.0) == value


async def test_error_reply_carries_code_and_text_and_affects_one_command(redis_link: RedisLink) -> None:
    good, bad, late = (
        redis_link.send("SET", "k", 1),
        redis_link.send("LPUSH", "k", 1),
        redis_link.send("GET", "k"),
    )
    with pytest.raises(RedisRefused) as rejection:
        await bad
    assert rejection.value.code == "WRONGTYPE"
    assert rejection.value.text.startswith("Operation against a key")
    assert await good == b"OK"
    assert await late == b"1"


async def test_timed_out_command_keeps_the_order_of_replies(redis_link: RedisLink) -> None:
    with pytest.raises(RedisOutcomeUnknown):
        await redis_link.call("BLPOP", "nothing", "0.2", timeout=0.01)
    assert await redis_link.call("ECHO", "next", timeout=5.0) == b"next"


async def test_an_error_for_a_cancelled_caller_is_dropped(redis_link: RedisLink) -> None:
    abandoned = redis_link.send("NOSUCHCOMMAND")
    abandoned.cancel()
    assert await redis_link.call("ECHO", "next", timeout=5.0) == b"next"


async def test_a_script_runs_by_its_digest_and_survives_a_flush(redis_link: RedisLink) -> None:
    script = redis_link.script("return {KEYS[1], ARGV[1]}")
    assert await within(5.0, script.send(["k"], [1])) == [b"k", b"1"]
    await redis_link.call("SCRIPT", "FLUSH", timeout=5.0)
    assert await asyncio.gather(*[script.send(["k"], [i]) for i in range(3)]) == [
        [b"k", b"0"],
        [b"k", b"1"],
        [b"k", b"2"],
    ]


async def test_failed_script_is_an_error_reply(redis_link: RedisLink) -> None:
    with pytest.raises(RedisRefused, match="FENCED by another"):
        await within(5.0, redis_link.script("return redis.error_reply('FENCED by another')").send([], []))
    with pytest.raises(RedisRefused):
        await within(5.0, redis_link.script("this is not Lua").send([], []))


async def test_wrong_password_is_rejected_at_once(server: Server) -> None:
    link = await RedisLink.connect(f"redis://:secret%20word@127.0.0.1:{server.port}/3")
    assert b"db=3" in await link.call("CLIENT", "INFO", timeout=5.0)
    await link.close()
    for url in (f"redis://:wrong@127.0.0.1:{server.port}", server.url):
        with pytest.raises(RedisRefused) as rejection:
            await RedisLink.connect(url)
        assert rejection.value.code in ("WRONGPASS", "NOAUTH")


@pytest.mark.parametrize("kind", sorted(binaries()))
async def test_unix_socket_is_supported(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a socket"
    with running(kind, "--unixsocket", str(path)):
        link = await RedisLink.connect(f"unix://{str(path).replace(' ', '%20')}?db=2")
        assert b"db=2" in await link.call("CLIENT", "INFO", timeout=5.0)
        assert link.server.product == kind
        await link.close()


async def test_an_unreachable_address_is_reported_in_time() -> None:
    port = free_port()
    with pytest.raises(RedisUnavailable, match=f"no Redis at 127.0.0.1:{port}: Connection refused"):
        await RedisLink.connect(f"redis://127.0.0.1:{port}", timeout=0.2)


async def test_a_closed_link_stays_closed(redis_url: str) -> None:
    link = await RedisLink.connect(redis_url)
    waiting = link.send("BLPOP", "nothing", 0)
    await asyncio.sleep(0)
    await link.close()
    await link.close()
    with pytest.raises(RedisOutcomeUnknown):
        await waiting
    with pytest.raises(RedisUnavailable, match="closed"):
        await link.send("PING")
    assert not link.connected
