"""Case 1: consume a stream with redis-py alone, at three granularities of acknowledgement."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

import redis

from tests.perf.processes import together

STREAM: Final = "work"
GROUP: Final = "workers"
BATCH: Final = 100

Acknowledge = Callable[["redis.Redis", list[bytes]], object]


def _each(server: redis.Redis, ids: list[bytes]) -> None:
    pipeline = server.pipeline(transaction=False)
    for record in ids:
        pipeline.xack(STREAM, GROUP, record)
    pipeline.execute()


def _together(server: redis.Redis, ids: list[bytes]) -> None:
    server.xack(STREAM, GROUP, *ids)


GRANULARITIES: Final[dict[str, tuple[int, Acknowledge]]] = {
    "each": (BATCH, _each),
    "range": (BATCH, _together),
    "waiting": (1, _together),
}


def fill(url: str, records: int, record_bytes: int) -> None:
    """Replaces the stream by one of `records` records, with a group at its beginning."""
    server = redis.Redis.from_url(url)
    server.delete(STREAM)
    payload = b"x" * record_bytes
    for start in range(0, records, 1000):
        pipeline = server.pipeline(transaction=False)
        for _ in range(start, min(start + 1000, records)):
            pipeline.xadd(STREAM, {"value": payload})
        pipeline.execute()
    server.xgroup_create(STREAM, GROUP, "0")
    server.close()


def work(url: str, name: str, granularity: str) -> int:
    """Reads and acknowledges until the stream is empty; returns the number of records."""
    server = redis.Redis.from_url(url)
    count, acknowledge = GRANULARITIES[granularity]
    done = 0
    while True:
        reply: Any = server.xreadgroup(GROUP, name, {STREAM: ">"}, count=count)
        if not reply:
            server.close()
            return done
        ids = [record for record, _ in reply[0][1]]
        acknowledge(server, ids)
        done += len(ids)


def work_in_threads(url: str, granularity: str, workers: int) -> float:
    """Returns the records per second of several threads that consume the stream to its end."""
    done = [0] * workers

    def run(index: int) -> None:
        done[index] = work(url, f"worker-{index}", granularity)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(workers)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - begun)


def measure(url: str, records: int, waiting_records: int, record_bytes: int) -> dict[str, float]:
    """Returns the case's figures; `waiting_records` is for the granularity of one round trip per record."""
    figures = {}
    for granularity in GRANULARITIES:
        total = waiting_records if granularity == "waiting" else records
        for workers in (1, 8):
            fill(url, total, record_bytes)
            figures[f"raw.{granularity}.{workers}"] = work_in_threads(url, granularity, workers)
        fill(url, total, record_bytes)
        figures[f"raw.{granularity}.8p"] = total / together(
            work, [(url, f"worker-{index}", granularity) for index in range(8)]
        )
    return figures
