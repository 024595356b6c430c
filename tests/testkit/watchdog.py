"""Ends a test process that the timeout of pytest-timeout does not interrupt."""

from __future__ import annotations

import faulthandler
import os
from typing import Final

import pytest
from pytest_timeout import Settings

GRACE: Final = 60.0
"""Seconds from the timeout of a test to the end of its process."""


class Watchdog:
    """Prints the stack of each thread and exits when a test does not end after its timeout.

    The timeout is a signal, which fails one test and lets the process continue. It has two gaps. Python
    handles a signal only after a call of C code has returned, and uvloop's `Loop.close` may not return.
    And pytest-timeout cancels the timeout of a test that failed, so that its teardown has none.
    """

    def __init__(self, grace: float = GRACE) -> None:
        self._grace = grace
        self._output = os.dup(2)  # before pytest captures it
        self._seconds: float | None = None

    @pytest.hookimpl(tryfirst=True)  # pytest-timeout's own result ends the call of this hook
    def pytest_timeout_set_timer(self, settings: Settings) -> None:
        """Starts with the timeout of a test."""
        self._seconds = float(settings.timeout) + self._grace
        self._start()

    @pytest.hookimpl(trylast=True)  # pytest's own plugin has cancelled it
    def pytest_exception_interact(self) -> None:
        """Starts again for the teardown of a test that failed."""
        self._start()

    def pytest_runtest_logfinish(self) -> None:
        """Ends after the teardown."""
        self._seconds = None
        faulthandler.cancel_dump_traceback_later()

    def _start(self) -> None:
        if self._seconds is not None:
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._output)
