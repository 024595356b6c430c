"""Redis URLs and server releases."""

from __future__ import annotations

import pytest

from sharebroker_server.redis_link.link.errors import RedisTooOld, RedisUnavailable, RedisUrlInvalid
from sharebroker_server.redis_link.topology.redis_url import Server, Target


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
def test_urls(url: str, shown: str, db: int, greeting: list[tuple[str | int, ...]]) -> None:
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
def test_releases(info: bytes, supported: bool) -> None:
    server = Server.from_info(info)
    if supported:
        server.require_supported()
    else:
        with pytest.raises(RedisTooOld, match="is too old"):
            server.require_supported()


def test_info_of_another_server_is_rejected() -> None:
    with pytest.raises(RedisUnavailable, match="not Redis"):
        Server.from_info(b"OK")


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
