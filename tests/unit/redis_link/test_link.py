"""Confirmations: replies to writes wait for WAIT."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharebroker_server.redis_link.link import Confirmations, Replicas
from sharebroker_server.redis_link.port import RedisOutcomeUnknown, RedisUnavailable


class Harness:
    """A primary whose replies the test resolves."""

    def __init__(self) -> None:
        self.waits: list[asyncio.Future[Any]] = []
        self.confirmations = Confirmations(self._send, Replicas(1, 0.5))

    def _send(self, *command: object) -> asyncio.Future[Any]:
        assert command == ("WAIT", 1, 500)
        self.waits.append(asyncio.get_running_loop().create_future())
        return self.waits[-1]

    async def write(self) -> tuple[asyncio.Future[Any], asyncio.Future[Any]]:
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        held = self.confirmations.hold(reply)
        await asyncio.sleep(0)
        return reply, held


async def test_a_confirmed_write_returns_its_reply() -> None:
    harness = Harness()
    reply, held = await harness.write()
    reply.set_result("stored")
    harness.waits[0].set_result(1)
    assert await held == "stored"


async def test_too_few_replicas_make_the_outcome_unknown() -> None:
    harness = Harness()
    reply, held = await harness.write()
    reply.set_result("stored")
    harness.waits[0].set_result(0)
    with pytest.raises(RedisOutcomeUnknown, match=r"0 of 1 replicas confirmed the write within 0\.5 s"):
        await held


async def test_a_failed_write_keeps_its_error() -> None:
    harness = Harness()
    reply, held = await harness.write()
    reply.set_exception(RedisUnavailable("closed"))
    harness.waits[0].set_result(0)
    with pytest.raises(RedisUnavailable):
        await held


async def test_writes_during_a_wait_share_the_next_one() -> None:
    harness = Harness()
    first, first_held = await harness.write()
    second, second_held = await harness.write()
    third, third_held = await harness.write()
    assert len(harness.waits) == 1
    for reply in (first, second, third):
        reply.set_result("stored")
    harness.waits[0].set_result(1)
    assert await first_held == "stored"
    assert len(harness.waits) == 2
    assert not second_held.done()
    harness.waits[1].set_result(1)
    assert [await second_held, await third_held] == ["stored", "stored"]
