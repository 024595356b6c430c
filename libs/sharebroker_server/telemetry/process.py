"""Metrics of a broker's process: CPU, memory, files and event loop lag."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Iterable
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from sharebroker_protocol.clock import now
from sharebroker_server.process_memory import resident_memory
from sharebroker_server.telemetry.metrics import Family, Histogram, counter, gauge, seconds_of

_INTERVAL: Final = 0.25
"""Seconds between two measurements of the lag."""


class LoopLag:
    """Measures how late the event loop runs a timer. This delay is part of every response time."""

    def __init__(self) -> None:
        self.late = Histogram()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Starts measuring."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(loop.time() + _INTERVAL, self._measure, loop, loop.time() + _INTERVAL)

    def stop(self) -> None:
        """Stops measuring."""
        if self._timer is not None:
            self._timer.cancel()

    def _measure(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.late.add_seconds(loop.time() - due)
        due = loop.time() + _INTERVAL
        self._timer = loop.call_at(due, self._measure, loop, due)

    def families(self) -> Iterable[Family]:
        """Returns the metric families."""
        yield seconds_of(
            "sharebroker_event_loop_lag_seconds",
            "Delay of a timer in the event loop, measured four times a second.",
            "",
            {"": self.late},
            low=8,
        )


class ProcessCost:
    """CPU, memory and files, with the metric names of Prometheus's client libraries."""

    @cached_property
    def _started_at(self) -> float:
        return now() - (time.monotonic() - _start_time())

    def families(self) -> Iterable[Family]:
        """Returns the metric families."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        yield counter(
            "process_cpu_seconds_total", "User and system CPU time.", [((), used.ru_utime + used.ru_stime)]
        )
        yield gauge("process_start_time_seconds", "Start time of the process.", [((), self._started_at)])
        yield gauge("process_resident_memory_bytes", "Resident memory.", [((), resident_memory())])
        yield gauge("process_open_fds", "Open file descriptors.", [((), _open_files())])
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        yield gauge("process_max_fds", "Maximum open file descriptors.", [((), most)])
        yield gauge(
            "sharebroker_build_info", "Always 1; the version is a label.", [(("version", release()), 1)]
        )


def release() -> str:
    """Returns the installed version."""
    try:
        return version("sharebroker-server")
    except PackageNotFoundError:
        return "unknown"


def _start_time() -> float:
    """Returns the start by the monotonic clock, or the current time if the system does not report it."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return -1
