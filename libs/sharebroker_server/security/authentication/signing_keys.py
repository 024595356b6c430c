"""Keeps the public keys of a token issuer current, and verifies tokens with them.

Theory of operation (Kafka: `RefreshingHttpsJwks`)
--------------------------------------------------

A thread reads the keys from a URL: at the start, then every refresh interval, and after a failure with a
back-off that doubles. A failure keeps the keys that were read last. A token with an unknown key id causes one
more read, at most one every `COOLDOWN` seconds for all clients together; verifications that wait share it.

Verified tokens are cached, so that a client that sends its token with each call is verified once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from time import monotonic, time
from typing import Final, NamedTuple

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_server.security.authentication.access_tokens import (
    AccessToken,
    KeySet,
    TokenRejected,
    TokenRules,
    header_of,
    verify,
)
from sharebroker_server.security.authentication.key_download import DEADLINE, SOCKET_TIMEOUT, read_url

COOLDOWN: Final = 10.0
"""Seconds between two reads because of an unknown key id."""

MAX_CACHED_TOKENS: Final = 10_000

_log = structlog.get_logger()


class KeySource(NamedTuple):
    """Where the keys are, and when they are read; times in seconds."""

    url: str
    refresh: float = 3600.0
    backoff: float = 0.1
    max_backoff: float = 10.0


class SigningKeys:
    """The keys of one issuer. Call `start`, then `stop`; `fetch` reads the URL in a thread."""

    def __init__(
        self,
        source: KeySource,
        fetch: Callable[[str], bytes] | None = None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self.keys = KeySet()
        self._source = source
        self._fetch = read_url if fetch is None else fetch
        self._now = now
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="signing keys")
        self._reading: asyncio.Task[bool] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._may_read_at = 0.0

    async def start(self) -> None:
        """Reads the keys; without success it continues to try."""
        delay = self._source.refresh if await self._read() else self._source.backoff
        self._refreshing = asyncio.create_task(self._refresh(delay), name="signing keys")

    async def stop(self) -> None:
        """Stops to read."""
        await end([task for task in (self._refreshing, self._reading) if task is not None])
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def having(self, key_id: str | None) -> KeySet:
        """Returns the keys, read again if none has the id and the cool-down permits it."""
        if not self.keys.has(key_id) and self._now() >= self._may_read_at:
            await self._read()
        elif not self.keys.has(key_id) and self._reading is not None and not self._reading.done():
            await asyncio.shield(self._reading)
        return self.keys

    async def _refresh(self, delay: float) -> None:
        backoff = self._source.backoff
        while True:
            await asyncio.sleep(delay)
            if await self._read():
                delay, backoff = self._source.refresh, self._source.backoff
            else:
                delay, backoff = backoff, min(backoff * 2, self._source.max_backoff)

    async def _read(self) -> bool:
        """Reads the keys once, for all who wait; returns whether it succeeded."""
        if self._reading is None or self._reading.done():
            self._may_read_at = self._now() + COOLDOWN
            self._reading = asyncio.create_task(self._load())
        return await asyncio.shield(self._reading)

    async def _load(self) -> bool:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(DEADLINE + SOCKET_TIMEOUT):
                data = await loop.run_in_executor(self._thread, self._fetch, self._source.url)
            self.keys = KeySet.parse(data)
        except (OSError, HTTPException, ValueError) as failure:
            _log.warning("signing keys cannot be read; keeping the current ones", reason=_reason(failure))
            return False
        return True


class TokenVerifier:
    """Verifies tokens with the keys of an issuer. `now` returns seconds since the epoch."""

    def __init__(self, keys: SigningKeys, rules: TokenRules, now: Callable[[], float] = time) -> None:
        self._keys = keys
        self._rules = rules
        self._now = now
        self._verified: dict[bytes, AccessToken] = {}
        self._verified_with = keys.keys

    async def verify(self, token: str) -> AccessToken | None:
        """Returns a valid token; None for any other."""
        if self._verified_with is not self._keys.keys:
            self._verified.clear()
            self._verified_with = self._keys.keys
        digest = hashlib.sha256(token.encode()).digest()
        found = self._verified.get(digest)
        if found is not None and self._now() - self._rules.skew < found.expires_at:
            return found
        try:
            keys = await self._keys.having(header_of(token).key_id)
            accepted = verify(token, keys, self._rules, self._now())
        except TokenRejected as rejection:
            _log.debug("token rejected", reason=str(rejection))
            return None
        if len(self._verified) >= MAX_CACHED_TOKENS:
            del self._verified[next(iter(self._verified))]  # the oldest
        if keys is self._verified_with:
            self._verified[digest] = accepted
        return accepted


def _reason(failure: Exception) -> str:
    return str(failure) or type(failure).__name__
