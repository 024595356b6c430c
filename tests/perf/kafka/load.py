"""Runs a program that reports its progress, and measures it and the server once both are warm."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Final, Protocol

from tests.perf.processes import ROOT, BenchFailed, end
from tests.perf.procfs import Usage
from tests.perf.steady import Measured, Meter, Sample

PATIENCE: Final = 60.0
"""Seconds that a program may exceed its warm-up and measurement together."""

END_SECONDS: Final = 15.0
_REPORT: Final = re.compile(r"(\d+) records sent, ([\d.]+) records/sec")


class Reader(Protocol):
    """Reads the lines that a program writes."""

    def __call__(self, line: str, usage: Callable[[], Usage]) -> Sample | None:
        """Returns the sample in a line; None if the line contains none."""


def read_sample(line: str, usage: Callable[[], Usage]) -> Sample | None:
    """The samples of ShareBench.java and librdkafka.py: `sample COUNT NANOSECONDS [MICROSECONDS,…]`."""
    words = line.split()
    if len(words) < 3 or words[0] != "sample":
        return None
    used = usage()
    times = tuple(int(each) / 1000 for each in words[3].split(",")) if len(words) > 3 else ()
    return Sample(int(words[1]), int(words[2]) / 1e9, used.cpu, used.rss, times)


class ProducerReports:
    """The reports of ProducerPerformance: each gives the records since the one before and their rate."""

    def __init__(self) -> None:
        self._count = 0
        self._at = 0.0

    def __call__(self, line: str, usage: Callable[[], Usage]) -> Sample | None:
        """The sample in a line."""
        found = _REPORT.match(line)
        if found is None or not float(found[2]):
            return None
        self._count += int(found[1])
        self._at += int(found[1]) / float(found[2])
        used = usage()
        return Sample(self._count, self._at, used.cpu, used.rss)


def drive(
    command: Sequence[str],
    environment: Mapping[str, str],
    usage: Callable[[], Usage],
    meter: Meter,
    limit: float,
    read: Reader = read_sample,
) -> Measured:
    """Runs a program until enough is measured, and ends it.

    Raises BenchFailed when it ends before, or has not reported enough within `limit` seconds.
    """
    with tempfile.TemporaryFile("w+") as errors, _started(command, environment, errors) as process:
        late = threading.Event()
        timer = threading.Timer(limit, _kill, (process, late))
        timer.start()
        last: list[str] = []
        try:
            assert process.stdout is not None
            for line in process.stdout:
                last = [line.strip()]
                if last == ["pass"]:
                    meter.begin_pass()
                elif (sample := read(line, usage)) is not None:
                    meter.add(sample)
                    if meter.done:
                        return meter.measured
        finally:
            timer.cancel()
        errors.seek(0)
        words = [line for line in errors.read().splitlines() if line.strip() and "SLF4J" not in line] or last
        why = f"not done after {limit:g} s" if late.is_set() else "ended too early"
        raise BenchFailed(f"{why}: {_first_error(words)}")


def _first_error(words: Sequence[str]) -> str:
    """Returns the line that names an exception, or the last line."""
    return next(
        (line for line in words if "Exception" in line or "Error" in line), words[-1] if words else ""
    )


@contextlib.contextmanager
def _started(
    command: Sequence[str], environment: Mapping[str, str], errors: IO[str]
) -> Iterator[subprocess.Popen[str]]:
    """The program. At the end its input is closed, at which it finishes; otherwise it is terminated."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process
    finally:
        draining = threading.Thread(target=_drain, args=(process.stdout,), daemon=True)
        draining.start()
        process.stdin.close()
        deadline = time.monotonic() + (0.0 if "ProducerPerformance" in " ".join(command) else END_SECONDS)
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        end(process)
        draining.join(END_SECONDS)
        process.stdout.close()


def _drain(output: IO[str]) -> None:
    with contextlib.suppress(ValueError):
        for _ in output:
            pass


def _kill(process: subprocess.Popen[str], late: threading.Event) -> None:
    late.set()
    process.kill()
