"""Keys of an issuer: read in time, kept after a failure, read for an unknown key id; and cached tokens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sharebroker_server.security import signing_keys
from sharebroker_server.security.access_tokens import TokenRules
from sharebroker_server.security.principal import Principal
from sharebroker_server.security.signing_keys import (
    COOLDOWN,
    LARGEST_KEYS,
    KeySource,
    SigningKeys,
    TokenVerifier,
    check_url,
    read_url,
)
from tests.testkit.issuer import AUDIENCE, ISSUER, Issuer, jwk, jwk_set, token
from tests.testkit.waiting import eventually

ONE = jwk_set(jwk("RS256", "1"))
TWO = jwk_set(jwk("RS256", "1"), jwk("RS256", "2"))
HOURLY = KeySource("https://issuer.example")
RULES = TokenRules(frozenset({AUDIENCE}), ISSUER)


class Source:
    """Returns its content, or raises it; the test sets the time in seconds."""

    def __init__(self, content: bytes | Exception) -> None:
        self.content = content
        self.reads = 0
        self.time = 0.0
        self.open = threading.Event()
        self.open.set()

    def read(self, url: str) -> bytes:
        self.open.wait(10.0)
        self.reads += 1
        if isinstance(self.content, Exception):
            raise self.content
        return self.content

    def keys(self, source: KeySource = HOURLY) -> SigningKeys:
        return SigningKeys(source, self.read, lambda: self.time)


async def test_keys_are_read_at_the_start_and_regularly() -> None:
    source = Source(ONE)
    keys = source.keys(KeySource("", refresh=0.01))
    await keys.start()
    assert keys.keys.has("1")
    source.content = TWO
    await eventually(lambda: keys.keys.has("2"))
    await keys.stop()


async def test_failures_are_repeated_and_keep_the_keys() -> None:
    source = Source(OSError("away"))
    keys = source.keys(KeySource("", refresh=0.01, backoff=0.01, max_backoff=0.02))
    await keys.start()
    await eventually(lambda: source.reads > 3)
    assert not keys.keys.has("1")
    source.content = ONE
    await eventually(lambda: keys.keys.has("1"))
    source.content, reads = b"{}", source.reads
    await eventually(lambda: source.reads > reads + 2)
    assert keys.keys.has("1")
    await keys.stop()


async def test_an_unknown_key_id_causes_one_read_per_cool_down() -> None:
    source = Source(ONE)
    keys = source.keys()
    await keys.start()
    source.content = TWO
    assert not (await keys.having("2")).has("2")  # the first read was just now
    source.time = COOLDOWN
    assert (await keys.having("2")).has("2")
    for _ in range(9):
        await keys.having("unknown")
    assert source.reads == 2
    await keys.stop()


async def test_concurrent_verifications_share_one_read() -> None:
    source = Source(ONE)
    keys = source.keys()
    await keys.start()
    source.content, source.time = TWO, COOLDOWN
    source.open.clear()
    waiting = [asyncio.create_task(keys.having("2")) for _ in range(5)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    source.open.set()
    assert all(found.has("2") for found in await asyncio.gather(*waiting))
    assert source.reads == 2
    await keys.stop()


async def test_known_keys_cause_no_read() -> None:
    source = Source(ONE)
    keys = source.keys()
    await keys.start()
    source.time = COOLDOWN
    await keys.having("1")
    await keys.having(None)
    assert source.reads == 1
    await keys.stop()


class Verifying:
    """A verifier at a time that the test sets."""

    def __init__(self, keys: Any) -> None:
        self.time = 1_000.0
        self.verifier = TokenVerifier(keys, RULES, lambda: self.time)

    async def accepts(self, text: str) -> bool:
        return await self.verifier.verify(text) is not None


async def test_verified_tokens_are_cached_until_they_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(ONE)
    keys = source.keys()
    await keys.start()
    verifying = Verifying(keys)
    text = token(now=1_000.0, lifetime=60)
    found = await verifying.verifier.verify(text)
    assert found == (Principal("alice"), 1_060.0)
    monkeypatch.setattr(signing_keys, "verify", None)
    assert await verifying.verifier.verify(text) is found
    monkeypatch.undo()
    verifying.time = 1_060.0 + RULES.skew
    assert not await verifying.accepts(text)
    await keys.stop()


async def test_cached_tokens_are_verified_again_with_new_keys() -> None:
    source = Source(ONE)
    keys = source.keys(KeySource("", refresh=0.01))
    await keys.start()
    verifying = Verifying(keys)
    text = token(now=1_000.0)
    assert await verifying.accepts(text)
    source.content = jwk_set(jwk("RS256", "3"))
    await eventually(lambda: keys.keys.has("3"))
    assert not await verifying.accepts(text)
    await keys.stop()


async def test_the_number_of_cached_tokens_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing_keys, "MAX_CACHED_TOKENS", 1)
    keys = Source(ONE).keys()
    await keys.start()
    verifying = Verifying(keys)
    for name in ("alice", "bob", "alice"):
        assert await verifying.accepts(token(name, now=1_000.0))
    assert not await verifying.accepts("x.y.z")
    await keys.stop()


@pytest.mark.parametrize(
    "url", ["https://a.b/c", "http://127.0.0.1:1/k", "http://[::1]/", "file:///etc/keys"]
)
def test_safe_urls(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "keys.json",
        "http://issuer.example/",
        "https:///k",
        "file:keys",
        "file://host/k",
        "ftp://127.0.0.1/k",
    ],
)
def test_unsafe_urls(url: str) -> None:
    with pytest.raises(ValueError, match="expected https"):
        check_url(url)


def test_urls_contain_no_secret() -> None:
    with pytest.raises(ValueError, match="user or password"):
        check_url("https://me:secret@issuer.example/")


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer(ONE).serving() as made:
        yield made


def test_keys_are_read_from_a_server_and_from_a_file(issuer: Issuer, tmp_path: Path) -> None:
    issuer.content, issuer.status = ONE, 200
    assert read_url(issuer.url) == ONE
    (tmp_path / "a b.json").write_bytes(TWO)
    assert read_url((tmp_path / "a b.json").as_uri()) == TWO


def test_redirects_and_errors_are_failures(issuer: Issuer) -> None:
    issuer.status, issuer.headers = 302, {"Location": issuer.url}
    with pytest.raises(OSError, match="302"):
        read_url(issuer.url)
    issuer.status, issuer.headers = 500, {}
    with pytest.raises(OSError, match="500"):
        read_url(issuer.url)


def test_large_responses_and_files_are_rejected(issuer: Issuer, tmp_path: Path) -> None:
    issuer.status, issuer.content = 200, b" " * (LARGEST_KEYS + 1)
    with pytest.raises(ValueError, match="bytes"):
        read_url(issuer.url)
    (tmp_path / "large").write_bytes(issuer.content)
    with pytest.raises(ValueError, match="bytes"):
        read_url((tmp_path / "large").as_uri())


def test_a_slow_response_ends_at_the_deadline(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    issuer.status, issuer.content = 200, ONE
    monkeypatch.setattr(signing_keys, "DEADLINE", -1.0)
    with pytest.raises(TimeoutError):
        read_url(issuer.url)


def test_a_missing_file_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        read_url((tmp_path / "missing").as_uri())
