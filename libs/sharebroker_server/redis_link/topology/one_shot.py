"""One question to a server, over a connection of its own."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sharebroker_server.redis_link.link.connection import Wire, pack
from sharebroker_server.redis_link.link.errors import RedisError
from sharebroker_server.redis_link.link.port import Part
from sharebroker_server.redis_link.topology.redis_url import Target

ANSWER: Final = 1.0
"""Seconds that a node may take to answer; then another one is asked."""

_BYTES: Final = 64 * 1024
"""May wait to be sent."""


async def ask(target: Target, *commands: tuple[Part, ...]) -> tuple[list[RedisError], list[Any]]:
    """Refusals of the login, and what was answered to each command, or the refusal.

    Raises OSError or RedisError where the server cannot be asked; TimeoutError after `ANSWER` seconds.
    """
    loop = asyncio.get_running_loop()
    wire = Wire(_BYTES, ANSWER, lambda _: None)
    greeting = target.greeting()
    try:
        async with asyncio.timeout(ANSWER):
            await target.open(lambda: wire)
            replies: list[asyncio.Future[Any]] = [loop.create_future() for _ in (*greeting, *commands)]
            for command, reply in zip((*greeting, *commands), replies, strict=True):
                wire.send(pack(command), reply)
            answers = await asyncio.gather(*replies, return_exceptions=True)
    finally:
        wire.abort()
    login, rest = answers[: len(greeting)], answers[len(greeting) :]
    return [refusal for refusal in login if isinstance(refusal, RedisError)], rest
