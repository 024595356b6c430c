"""The coarse timer ends the waits of one tick together."""

from __future__ import annotations

import asyncio

from sharebroker_server.gateway.kafka.coarse_timer import TICK, CoarseTimer


async def test_wait_ends_within_one_tick_after_its_deadline() -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    begun = loop.time()
    tick = CoarseTimer().call_at(begun + 0.02, over.set)
    assert begun + 0.02 <= tick * TICK <= loop.time() + 0.02 + TICK
    await over.wait()
    assert loop.time() >= begun + 0.02 - 0.002  # uvloop's timers count milliseconds


async def test_callback_may_cancel_another_wait_of_the_same_tick() -> None:
    loop = asyncio.get_running_loop()
    ticks = CoarseTimer()
    called: list[str] = []
    tick = 0

    def first() -> None:
        called.append("first")
        ticks.cancel(tick, second)

    def second() -> None:
        called.append("second")
        ticks.cancel(tick, first)

    while (tick := ticks.call_at(loop.time() + 0.01, first)) != ticks.call_at(loop.time() + 0.01, second):
        ticks.cancel(tick, first)
        ticks.cancel(tick + 1, second)
    assert len(ticks) == 2
    await asyncio.sleep(0.03)
    assert (len(called), len(ticks)) == (1, 0)


async def test_cancelling_an_ended_or_unknown_wait_has_no_effect() -> None:
    ticks = CoarseTimer()
    ticks.cancel(5, print)
    over = asyncio.Event()
    tick = ticks.call_at(asyncio.get_running_loop().time(), over.set)
    await over.wait()
    ticks.cancel(tick, over.set)
