"""The deadline of a reply."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_server.redis_link.link.errors import RedisOutcomeUnknown
from sharebroker_server.redis_link.link.port import within


async def test_a_reply_in_time_is_returned() -> None:
    reply: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    reply.set_result(7)
    assert await within(1.0, reply) == 7


async def test_a_late_reply_has_an_unknown_outcome() -> None:
    with pytest.raises(RedisOutcomeUnknown, match="no reply from Redis within"):
        await within(0.0, asyncio.get_running_loop().create_future())
