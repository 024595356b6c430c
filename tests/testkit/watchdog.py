"""Ends a test process that the timeout of pytest-timeout does not interrupt."""

from __future__ import annotations

import faulthandler
import os
from time import monotonic
from typing import Final

import pytest
from pytest_timeout import Settings

GRACE: Final = 30.0
"""Seconds from the timeout of a test to the end of its process; twice as many at most."""


class Watchdog:
    """Prints the stack of each thread and exits when a test does not end after its timeout.

    The timeout is a signal, which fails one test and lets the process continue. It has two gaps. Python
    handles a signal only after a call of C code has returned, and uvloop's `Loop.close` may not return.
    And pytest-timeout cancels the timeout of a test that failed, so that its teardown has none.
    """

    def __init__(self, grace: float = GRACE) -> None:
        self._grace = grace
        self._output = os.dup(2)  # before pytest captures it
        self._test = ""
        self._timeout = 0.0
        self._ends_at = 0.0

    @pytest.hookimpl(tryfirst=True)  # pytest-timeout's own result ends the call of this hook
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Settings) -> None:
        """Starts with the timeout of a test; short tests share a start, which costs a thread."""
        self._test, self._timeout = item.nodeid, float(settings.timeout)
        remaining = self._ends_at - monotonic() - self._timeout
        if not self._grace <= remaining <= 2 * self._grace:
            self._start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Ends before a test without a timeout."""
        if nodeid != self._test:
            self._end()

    @pytest.hookimpl(trylast=True)  # pytest's own plugin has cancelled it
    def pytest_exception_interact(self) -> None:
        """Starts again for the teardown of a test that failed."""
        if self._ends_at:
            self._start()

    def pytest_sessionfinish(self) -> None:
        """Ends after the last test."""
        self._end()

    def _start(self) -> None:
        seconds = self._timeout + 2 * self._grace
        self._ends_at = monotonic() + seconds
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._output)

    def _end(self) -> None:
        self._ends_at = 0.0
        faulthandler.cancel_dump_traceback_later()
