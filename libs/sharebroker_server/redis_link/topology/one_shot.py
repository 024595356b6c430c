"""One-shot connections: a few commands to a server outside the link, sent by redis-py.

Topology requests are rare, and they go to nodes that may be dead. They use a connection of their own, so that
a dead node delays nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from sharebroker_server.redis_link.link.errors import RedisError, RedisRefused, RedisUnavailable
from sharebroker_server.redis_link.topology.redis_url import Target

TIMEOUT: Final = 1.0
"""Seconds that a node may take to respond; then the next node is queried."""


@asynccontextmanager
async def one_shot(target: Target) -> AsyncIterator[Any]:
    """Opens a client that ends after `TIMEOUT` seconds.

    Raises RedisRefused for an error response, RedisUnavailable for any other failure of the client,
    TimeoutError.
    """
    from redis.asyncio import Redis  # imports OpenTelemetry
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    from redis.exceptions import RedisError as ClientError

    client = Redis(
        host=target.host,
        port=target.port,
        unix_socket_path=target.path or None,
        ssl=target.tls,
        username=target.user or None,
        password=target.password or None,
        db=target.db,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        driver_info=None,
    )
    try:
        async with asyncio.timeout(TIMEOUT):
            yield client
    except ClientError as error:
        raise _as_ours(error) from error
    finally:
        await client.aclose()


async def query(target: Target, *command: str) -> Any:
    """Returns the response to one command. Raises as `one_shot`."""
    async with one_shot(target) as client:
        return await client.execute_command(*command)


def _as_ours(error: Any) -> RedisError:
    from redis.exceptions import ResponseError

    code = error.status_code or ("ERR" if isinstance(error, ResponseError) else "")
    return RedisRefused(code, str(error)) if code else RedisUnavailable(str(error))
