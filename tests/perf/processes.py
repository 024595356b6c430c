"""Starts the processes of a run, waits for them with a time limit, and ends them by their ids."""

from __future__ import annotations

import gc
import json
import multiprocessing
import multiprocessing.process
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from tests.perf.checkout import HERE

ROOT: Final = HERE.folder
WORKER_SECONDS: Final = 60.0


class BenchFailed(Exception):
    """A process of the benchmark failed or took too long. The text names it and holds its last output."""


def python(*words: str, profile: Path | None = None) -> list[str]:
    """Returns a command that runs a module of this project, under cProfile when `profile` is given."""
    profiled = () if profile is None else ("-m", "cProfile", "-o", str(profile))
    return [sys.executable, *profiled, "-m", *words]


def environment() -> dict[str, str]:
    """Returns an environment in which this checkout's modules are found."""
    return HERE.environment()


@contextmanager
def interruptible() -> Iterator[None]:
    """Ends the block at Ctrl-C or SIGTERM, so that servers stop and the results so far are printed.

    A background job inherits an ignored SIGINT, so Python's own handler may be missing.
    """

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end(process: subprocess.Popen[Any], patience: float = 20.0) -> None:
    """Terminates a process, and kills it when it has not ended after `patience` seconds."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def run_client(
    case: str, parameters: Mapping[str, object], limit: float, profile: Path | None = None
) -> dict[str, float]:
    """Runs a client program (`tests.perf.clients`) in its own process and returns its figures.

    Raises BenchFailed when it fails, or has not ended after `limit` seconds.
    """
    command = python("tests.perf.clients", case, json.dumps(parameters), profile=profile)
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        end(process)
        raise BenchFailed(f"{case}: not done after {limit:g} s") from None
    if process.returncode:
        words = err.strip().splitlines()
        raise BenchFailed(f"{case}: {words[-1] if words else f'exit code {process.returncode}'}")
    return cast("dict[str, float]", json.loads(out.strip().splitlines()[-1]))


def together(work: Callable[..., object], arguments: Sequence[tuple[Any, ...]]) -> float:
    """Runs `work` in parallel, one process per item of `arguments`; returns the seconds until all end.

    The time to start and to end the processes does not count.
    """
    context = multiprocessing.get_context("spawn")
    ready, go, done = context.Semaphore(0), context.Event(), context.Semaphore(0)
    workers = [context.Process(target=_on_signal, args=(ready, go, done, work, each)) for each in arguments]
    for worker in workers:
        worker.start()
    _all(ready, workers)
    begun = time.perf_counter()
    go.set()
    _all(done, workers)
    took = time.perf_counter() - begun
    for worker in workers:
        worker.join()
    return took


def _all(signal: Any, workers: Sequence[multiprocessing.process.BaseProcess]) -> None:
    """Waits for one signal per worker. Raises BenchFailed when one is missing after WORKER_SECONDS."""
    if not all(signal.acquire(timeout=WORKER_SECONDS) for _ in workers):
        for worker in workers:
            worker.kill()
        raise BenchFailed(f"a worker process did not respond within {WORKER_SECONDS:g} s")


def _on_signal(ready: Any, go: Any, done: Any, work: Callable[..., object], given: tuple[Any, ...]) -> None:
    gc.freeze()  # as the clients do
    ready.release()
    go.wait()
    work(*given)
    done.release()
