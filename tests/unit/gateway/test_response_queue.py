"""The send queue of a client's stream."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_server.gateway.response_queue import ResponseQueue


async def test_queue_ends_after_its_messages() -> None:
    queue: ResponseQueue[int] = ResponseQueue(3)
    await queue.put(1)
    await queue.put(2)
    await queue.end()
    assert [message async for message in queue] == [1, 2]


async def test_put_waits_for_room() -> None:
    queue: ResponseQueue[int] = ResponseQueue(1)
    await queue.put(1)
    blocked = asyncio.ensure_future(queue.put(2))
    await asyncio.sleep(0)
    assert not blocked.done()
    messages = aiter(queue)
    assert await anext(messages) == 1
    await blocked
    assert await anext(messages) == 2


async def test_fail_drops_the_messages_and_raises() -> None:
    queue: ResponseQueue[int] = ResponseQueue(1)
    await queue.put(1)
    queue.fail(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        await anext(aiter(queue))
