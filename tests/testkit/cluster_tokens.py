"""Calls of internal RPCs by tests, with the token of a process of the cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import redis
from typing_extensions import override

from sharebroker_protocol.clock import now
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.security.cluster_token import parse_secrets, sign
from sharebroker_server.security.credentials import TOKEN_KEY

PROCESS = "test/1"


def stored_secret(redis_url: str) -> bytes:
    """Returns the secret that signs in the default cluster of a Redis."""
    with redis.Redis.from_url(redis_url) as client:
        text = client.get(Keys().cluster_secret())
    assert isinstance(text, bytes), "no broker has stored a secret"
    return parse_secrets(text)[0]


def store_secrets(redis_url: str, *secrets: bytes) -> None:
    """Replaces the secrets, as an operator does."""
    with redis.Redis.from_url(redis_url) as client:
        client.set(Keys().cluster_secret(), b"\n".join(secrets))


@asynccontextmanager
async def internal_channel(address: str, secret: bytes | None) -> AsyncIterator[grpc.aio.Channel]:
    """Provides a channel whose unary calls carry a token; without a secret, that of an outsider."""
    interceptors = [] if secret is None else [_WithToken(sign(secret, PROCESS, now()))]
    async with grpc.aio.insecure_channel(address, interceptors=interceptors) as channel:
        yield channel


class _WithToken(grpc.aio.UnaryUnaryClientInterceptor):
    """Adds a token to each call."""

    def __init__(self, token: str) -> None:
        self._token = token

    @override
    async def intercept_unary_unary(
        self,
        continuation: Callable[[Any, Any], Any],
        client_call_details: Any,
        request: Any,
    ) -> Any:
        metadata = grpc.aio.Metadata((TOKEN_KEY, self._token))
        return await continuation(client_call_details._replace(metadata=metadata), request)
