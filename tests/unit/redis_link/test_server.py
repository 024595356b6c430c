"""Redis URLs and server releases."""

from __future__ import annotations

import socket

import pytest

from sharebroker_server.redis_link import server as servers
from sharebroker_server.redis_link.port import RedisRefused, RedisTooOld, RedisUnavailable, RedisUrlInvalid
from sharebroker_server.redis_link.server import ServerInfo, Target, is_resolvable
from tests.testkit.servers import free_port, running


@pytest.mark.parametrize(
    ("host", "resolvable"),
    [("", True), ("redis", True), ("a.b", True), ("a..b", False), ("a" * 63, True), ("a" * 64, False)],
)
def test_labels_are_neither_empty_nor_too_long(host: str, resolvable: bool) -> None:
    assert is_resolvable(host) is resolvable


@pytest.mark.parametrize(
    ("url", "shown", "db", "greeting"),
    [
        ("redis://", "127.0.0.1:6379", 0, []),
        ("redis://cache:7000/2", "cache:7000", 2, [("SELECT", 2)]),
        ("redis://:p%40ss@cache", "cache:6379", 0, [("AUTH", "default", "p@ss")]),
        ("rediss://me:secret@cache", "cache:6379", 0, [("AUTH", "me", "secret")]),
        ("unix:///run/a%20b.sock?db=3", "unix:///run/a b.sock", 3, [("SELECT", 3)]),
    ],
)
def test_url_is_parsed(url: str, shown: str, db: int, greeting: list[tuple[str | int, ...]]) -> None:
    target = Target.parse(url)
    assert (str(target), target.db, target.greeting()) == (shown, db, greeting)
    assert target.tls is url.startswith("rediss")


@pytest.mark.parametrize(
    "url", ["http://cache", "cache:6379", "", "redis://cache/first", "redis://cache:port", "redis://a..b"]
)
def test_invalid_urls_are_rejected(url: str) -> None:
    with pytest.raises(RedisUrlInvalid, match="is no Redis"):
        Target.parse(url)


@pytest.mark.parametrize(
    ("info", "supported"),
    [
        (b"redis_version:7.0.15\r\n", True),
        (b"redis_version:8.2.1\r\n", True),
        (b"redis_version:6.2.14\r\n", False),
        (b"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n", True),
        (b"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.0\r\n", True),
        (b"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:7.2.5\r\n", False),
    ],
)
def test_old_releases_are_rejected(info: bytes, supported: bool) -> None:
    server = ServerInfo.from_info(info)
    if supported:
        server.require_supported()
    else:
        with pytest.raises(RedisTooOld, match="is too old"):
            server.require_supported()


def test_info_of_another_server_is_rejected() -> None:
    with pytest.raises(RedisUnavailable, match="not Redis"):
        ServerInfo.from_info(b"OK")


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hush@here",
        "redis://user:hush@here:port",
        "redis://:hu@sh@here:x",
        ":hush@here",
        "redis:hush@here",
        "//:hush@here",
        "redis://me:1/hush@here",
    ],
)
def test_errors_contain_no_password(url: str) -> None:
    with pytest.raises(RedisUrlInvalid) as refused:
        Target.parse_nodes(url)
    assert "hu" not in str(refused.value)
    assert "***@here" in str(refused.value)


async def test_a_closed_port_is_unavailable() -> None:
    with pytest.raises(RedisUnavailable):
        await servers.query(Target.parse(f"redis://127.0.0.1:{free_port()}"), "PING")


async def test_a_frozen_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        port = frozen.getsockname()[1]
        with pytest.raises(TimeoutError):
            await servers.query(Target.parse(f"redis://127.0.0.1:{port}"), "PING")


async def test_error_responses_keep_their_code() -> None:
    with running("valkey", "--requirepass", "hush") as server:
        target = Target.parse(f"redis://127.0.0.1:{server.port}")
        with pytest.raises(RedisRefused) as refused:
            await servers.query(target, "GET", "a")
        assert refused.value.code == "NOAUTH"
        with pytest.raises(RedisRefused) as refused:
            await servers.query(Target.parse(f"redis://:wrong@127.0.0.1:{server.port}"), "GET", "a")
        assert refused.value.code == "WRONGPASS"
        right = Target.parse(f"redis://:hush@127.0.0.1:{server.port}")
        with pytest.raises(RedisRefused) as refused:
            await servers.query(right, "NOSUCH")
        assert refused.value.code == "ERR"
        assert await servers.query(right, "PING")
