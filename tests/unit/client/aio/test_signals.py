"""Signals call a function in the event loop."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from sharebroker.aio.signals import on_interrupt


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_interrupt_calls_the_given_function(number: signal.Signals) -> None:
    interrupted = asyncio.Event()
    with on_interrupt(interrupted.set):
        os.kill(os.getpid(), number)
        await asyncio.wait_for(interrupted.wait(), 5)


async def test_outside_of_the_main_thread_signals_are_not_handled() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def handled() -> object:
        with on_interrupt(lambda: None):
            return signal.getsignal(signal.SIGTERM)

    assert await asyncio.to_thread(asyncio.run, handled()) is before
