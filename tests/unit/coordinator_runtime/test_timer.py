"""A timer that is armed often."""

from __future__ import annotations

import asyncio

from sharebroker_server.coordinator_runtime.timer import EarliestTimer


async def test_timer_fires_once_at_the_earliest_time() -> None:
    fired: list[float] = []
    loop = asyncio.get_running_loop()
    timer, start = EarliestTimer(lambda: fired.append(loop.time())), loop.time()
    timer.arm(start + 60.0)
    timer.arm(start + 0.01)
    timer.arm(start + 30.0)
    await asyncio.sleep(0.05)
    assert len(fired) == 1
    assert fired[0] >= start + 0.01


async def test_cancelled_timer_does_not_fire_until_it_is_armed_again() -> None:
    fired: list[None] = []
    timer, loop = EarliestTimer(lambda: fired.append(None)), asyncio.get_running_loop()
    timer.arm(loop.time())
    timer.cancel()
    timer.cancel()
    await asyncio.sleep(0.01)
    assert fired == []
    timer.arm(loop.time())
    await asyncio.sleep(0.01)
    assert fired == [None]
