"""Keys of an issuer: read in time, kept after a failure, read for an unknown key id; and cached tokens."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from sharebroker_server.security.authentication import signing_keys
from sharebroker_server.security.authentication.access_tokens import TokenRules
from sharebroker_server.security.authentication.signing_keys import (
    COOLDOWN,
    KeySource,
    SigningKeys,
    TokenVerifier,
)
from sharebroker_server.security.principal import Principal
from tests.testkit.issuer import AUDIENCE, ISSUER, jwk, jwk_set, token
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
