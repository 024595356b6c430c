"""URLs that name a primary by its sentinels."""

from __future__ import annotations

import pytest

from sharebroker_server.redis_link.port import RedisUrlInvalid
from sharebroker_server.redis_link.sentinel import SentinelUrl, addresses, is_sentinel_url
from tests.testkit.tables import each


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis+sentinel://a/mymaster", "redis+sentinel://a:26379/mymaster"),
        ("sentinel://a:1,b:2/m", "redis+sentinel://a:1,b:2/m"),
        ("REDIS+SENTINEL://a:1/m/", "redis+sentinel://a:1/m"),
        ("rediss+sentinel://me:hush@a,b:2/m/0", "rediss+sentinel://a:26379,b:2/m"),
        ("redis+sentinel://:hush@a/my%20master/3", "redis+sentinel://a:26379/my master"),
        ("redis+sentinel://[::1]:5,a/m", "redis+sentinel://::1:5,a:26379/m"),
    ],
)
def test_sentinel_url_is_parsed(url: str, shown: str) -> None:
    assert is_sentinel_url(url)
    assert addresses(url) == [shown]


def test_sentinels_and_primary_have_their_own_logins() -> None:
    named = SentinelUrl.parse("rediss+sentinel://me:p%40ss@a,b/m/3")
    assert named.name == "m"
    assert named.primary.greeting() == [("AUTH", "me", "p@ss"), ("SELECT", 3)]
    assert [one.greeting() for one in named.sentinels] == [[("AUTH", "me", "p@ss")]] * 2
    assert all(one.tls for one in (named.primary, *named.sentinels))


@each(
    "url, message",
    [
        ("redis+sentinel://a:26379", "has to end with the name"),
        ("redis+sentinel://a:26379/", "has to end with the name"),
        ("redis+sentinel://a:26379/m?db=1", "has to end with the name"),
        ("redis+sentinel://:hu/sh@a/m", "has to end with the name"),
        ("sentinel:a", "is no Redis URL: begin with"),
        ("redis+sentinel://a/m/first", "is no Redis database number"),
        ("redis+sentinel:///m", "HOST or HOST:PORT"),
        ("redis+sentinel://:hush@a,,b/m", "HOST or HOST:PORT"),
        ("redis+sentinel://:hush@a:port/m", "HOST or HOST:PORT"),
        ("redis+sentinel://:hush@[::1/m", "HOST or HOST:PORT"),
        ("redis+sentinel://:hush@a..b/m", "HOST or HOST:PORT"),
    ],
)
def test_invalid_urls_are_rejected(url: str, message: str) -> None:
    with pytest.raises(RedisUrlInvalid, match=message) as refused:
        addresses(url)
    assert "hu" not in str(refused.value)


def test_other_urls_are_not_sentinel_urls() -> None:
    assert not is_sentinel_url("redis://a/m")
    assert addresses("redis://:hush@a:1,b:2") == ["a:1", "b:2"]
