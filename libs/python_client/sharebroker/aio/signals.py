"""Signals that stop a program, handled in its event loop."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def on_interrupt(act: Callable[[], None]) -> Iterator[None]:
    """Calls `act` in the running event loop on SIGINT (Ctrl-C) and SIGTERM.

    Does nothing outside of the main thread, because Python handles signals there only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, act)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
