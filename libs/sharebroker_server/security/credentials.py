"""The credentials of a process: reads the cluster's secrets, signs its token, verifies those of callers.

The secrets are those of a file, or one that the first process stores in Redis (decision 0069).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

import structlog

from sharebroker_protocol import clock
from sharebroker_protocol.cancellation import end
from sharebroker_server.redis_link.port import Link, RedisError
from sharebroker_server.security.cluster_token import (
    RENEWAL,
    SETTLING,
    ClusterSecrets,
    TokenVerdict,
    parse_secrets,
)

_log = structlog.get_logger()

TOKEN_KEY: Final = "sharebroker-cluster-token"
"""The metadata key of the token."""

INTERVAL: Final = SETTLING / 3
"""Seconds between two readings of the secrets."""

_LARGEST_FILE: Final = 64 * 1024
_REDIS_TIMEOUT: Final = 5.0
_NEW_SECRET_BYTES: Final = 32

Metadata = tuple[tuple[str, str], ...]


class SecretsUnavailable(Exception):
    """The secrets cannot be read. The message contains no secret."""


class SecretSource(Protocol):
    """Where the secrets of a cluster are stored."""

    async def read(self, current: Sequence[bytes]) -> tuple[bytes, ...]:
        """Returns the secrets; `current` are those of the last reading. Raises SecretsUnavailable."""


class SecretFile:
    """A file with one secret per line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self, current: Sequence[bytes]) -> tuple[bytes, ...]:
        """Reads the file."""
        try:
            with self._path.open("rb") as file:
                text = file.read(_LARGEST_FILE + 1)
            if len(text) > _LARGEST_FILE:
                raise ValueError(f"it is larger than {_LARGEST_FILE} bytes")
            return parse_secrets(text)
        except OSError as error:
            reason = error.strerror or "it cannot be read"
        except ValueError as error:
            reason = str(error)
        raise SecretsUnavailable(f"The cluster secret file {self._path} is unusable: {reason}.")


class StoredSecret:
    """A key in Redis with one secret per line. The first process of the cluster creates it."""

    def __init__(self, link: Link, key: str) -> None:
        self._link = link
        self._key = key

    async def read(self, current: Sequence[bytes]) -> tuple[bytes, ...]:
        """Reads the key. If Redis lost it, stores the current secrets again, so that all processes agree."""
        try:
            text = await self._get()
            if text is None:
                created = current or (secrets.token_hex(_NEW_SECRET_BYTES).encode(),)
                await self._link.call("SET", self._key, b"\n".join(created), "NX", timeout=_REDIS_TIMEOUT)
                text = await self._get()  # a peer may have created it first
            return parse_secrets(text or b"")
        except RedisError as error:
            reason = str(error)
        except ValueError as error:
            reason = str(error)
        raise SecretsUnavailable(f"The cluster secret in Redis, {self._key}, is unusable: {reason}.")

    async def _get(self) -> bytes | None:
        value: bytes | None = await self._link.call("GET", self._key, timeout=_REDIS_TIMEOUT)
        return value


class ClusterCredentials:
    """Signs the token of this process, and verifies those of callers.

    Before `start` it rejects every token. `now` returns seconds since the epoch.
    """

    def __init__(self, now: Callable[[], float] = clock.now) -> None:
        self._now = now
        self._process = ""
        self._secrets: ClusterSecrets | None = None
        self._metadata: Metadata = ()
        self._signed_with = b""
        self._renew_at = 0.0
        self._following: list[asyncio.Task[None]] = []

    async def start(self, source: SecretSource, process: str) -> None:
        """Reads the secrets for this process (its owner name in leases) and follows their changes.

        Raises SecretsUnavailable.
        """
        self._secrets = ClusterSecrets(await source.read(()))
        self._process = process
        self._following.append(
            asyncio.create_task(self._follow(source, self._secrets), name="cluster secret")
        )

    async def stop(self) -> None:
        """Stops to follow changes."""
        await end(self._following)

    def metadata(self) -> Metadata:
        """Returns the metadata of a call to a peer: this process's token."""
        if self._secrets is None:
            return ()
        now = self._now()
        if now >= self._renew_at or self._signed_with is not self._secrets.signing:
            self._metadata = ((TOKEN_KEY, self._secrets.token(self._process, now)),)
            self._signed_with = self._secrets.signing
            self._renew_at = now + RENEWAL
        return self._metadata

    def verify(self, token: str | None) -> TokenVerdict:
        """Returns whether the token is that of a process of this cluster."""
        return TokenVerdict.MISSING if self._secrets is None else self._secrets.verify(token, self._now())

    async def _follow(self, source: SecretSource, current: ClusterSecrets) -> None:
        """Reads the secrets regularly. The current ones stay in use while the source is unavailable."""
        reported = ""
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                read = await source.read(current.listed)
            except SecretsUnavailable as failure:
                if str(failure) != reported:
                    _log.error("cluster secret reload failed; keeping the current one", reason=str(failure))
                reported = str(failure)
                read = tuple(current.listed)
            else:
                reported = ""
            if current.replace(read, self._now()):
                _log.info("cluster secret changed", secrets=len(read))
