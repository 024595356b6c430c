"""What identifies a client in each call: a user with a password, or an access token.

gRPC calls the plugins once per call, in a thread of its own, and only on channels with TLS.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import re
import threading
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from pathlib import Path
from time import time
from typing import Any, Final, NamedTuple

import grpc

TokenProvider = Callable[[], "str | Awaitable[str]"]
"""Returns an access token (a JWT), or a coroutine that does."""

PROVIDER_SECONDS: Final = 30.0
"""How long a coroutine of a `TokenProvider` may take, in seconds."""

_LARGEST_PASSWORD: Final = 1_024
_LARGEST_TOKEN: Final = 16_384
_TOKEN: Final = re.compile(r"[-_.A-Za-z0-9]+")
_USED_LIFETIME: Final = 0.8
"""The fraction of a token's lifetime after which it is replaced (Kafka: sasl.login.refresh.window.factor)."""


class TokenError(Exception):
    """There is no access token for a call. The text contains no part of a token."""


class Basic(grpc.AuthMetadataPlugin):
    """Adds `authorization: Basic` to each call."""

    def __init__(self, user: str, password: str) -> None:
        encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._metadata = (("authorization", f"Basic {encoded}"),)

    def __call__(self, context: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback) -> None:
        """Passes the metadata of one call to gRPC."""
        callback(self._metadata, None)


class Bearer(grpc.AuthMetadataPlugin):
    """Adds `authorization: Bearer` to each call; a call without a token fails, and may be retried."""

    def __init__(self, token: Callable[[], str]) -> None:
        """`token` returns the token, or raises TokenError; any number of threads call it."""
        self._token = token

    def __call__(self, context: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback) -> None:
        """Passes the metadata of one call, or a TokenError, to gRPC."""
        try:
            token = self._token()
        except TokenError as error:  # gRPC would log an exception
            callback((), error)
        else:
            callback((("authorization", f"Bearer {token}"),), None)


class _Held(NamedTuple):
    """A token, when it is replaced, and when it expires, in seconds since the epoch."""

    token: str = ""
    replace_at: float = 0.0
    expires_at: float = 0.0


class ProvidedToken:
    """The access token of a `TokenProvider`, for any number of threads; coroutines run in `loop`.

    The provider is called for the first call, and again when 80 % of the token's lifetime have passed. While
    it runs, and when it fails, calls use the previous token until that expires. A token without a readable
    expiry is used for one call.
    """

    def __init__(self, provider: TokenProvider, loop: asyncio.AbstractEventLoop | None) -> None:
        self._provider = provider
        self._loop = loop
        self._guard = threading.Lock()
        self._held = _Held()

    def __call__(self) -> str:
        """Returns the token. Raises TokenError.

        Blocks for at most `PROVIDER_SECONDS` if the provider is a coroutine function.
        """
        held, now = self._held, time()
        if now < held.replace_at or (now < held.expires_at and self._guard.locked()):
            return held.token
        with self._guard:
            if time() >= self._held.replace_at:
                self._replace()
            return self._held.token

    def _replace(self) -> None:
        try:
            token = checked_token(self._provided())
        except Exception as failure:
            if time() < self._held.expires_at:
                return
            # The text of an application's exception may contain its credentials.
            reason = str(failure) if isinstance(failure, TokenError) else type(failure).__name__
            raise TokenError(f"There is no access token: {reason}") from None
        now, expires_at = time(), expiry(token)
        self._held = _Held(token, now + _USED_LIFETIME * max(0.0, expires_at - now), expires_at)

    def _provided(self) -> object:
        provided: Any = self._provider()
        if not isawaitable(provided):
            return provided
        if self._loop is None:
            if asyncio.iscoroutine(provided):
                provided.close()
            raise TokenError("a blocking channel needs a provider that is no coroutine function")
        return asyncio.run_coroutine_threadsafe(_within(provided), self._loop).result(PROVIDER_SECONDS + 1.0)


async def _within(work: Awaitable[str]) -> str:
    async with asyncio.timeout(PROVIDER_SECONDS):
        return await work


def expiry(token: str) -> float:
    """Returns when a JWT expires (its claim `exp`), in seconds since the epoch; 0 if that is unreadable.

    Does not verify the token: the server does.
    """
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        expires_at = float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, OverflowError):
        return 0.0
    return expires_at if math.isfinite(expires_at) else 0.0


def checked_token(token: object) -> str:
    """Returns a token without white space around it. Raises TokenError if it cannot be one."""
    text = token.strip() if isinstance(token, str) else ""
    if len(text) > _LARGEST_TOKEN or not _TOKEN.fullmatch(text):
        raise TokenError(
            f"a token consists of 1 to {_LARGEST_TOKEN} letters, digits, dots, hyphens and underscores"
        )
    return text


def read_token(path: Path) -> str:
    """Returns the token in a file. Raises TokenError."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_TOKEN + 2)
        return checked_token(content.decode("ascii", "replace"))
    except OSError as failure:
        raise TokenError(f"{path}: {failure.strerror or 'it cannot be read'}") from None
    except TokenError as failure:
        raise TokenError(f"{path}: {failure}") from None


def read_password(path: Path) -> str:
    """Returns the first line of a file. Raises ValueError with the reason, without the password."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_PASSWORD + 1)
        password = content.partition(b"\n")[0].rstrip(b"\r").decode()
    except OSError as failure:
        raise ValueError(failure.strerror or "it cannot be read") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    if not password or len(content) > _LARGEST_PASSWORD:
        raise ValueError(f"its first line must be a password, and the file at most {_LARGEST_PASSWORD} bytes")
    return password
