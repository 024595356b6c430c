"""Client programs of the benchmark. Each runs in its own process and writes its figures as JSON.

They use the public asyncio client only. `python -m tests.perf.clients CASE PARAMETERS`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import uvloop

from sharebroker.aio import Admin, Producer, ShareConsumer
from sharebroker.cli.session import traced
from sharebroker.consumer.config import AcknowledgementOutcome, ConsumerConfig
from sharebroker_protocol.records.record import Acknowledgement, Record
from tests.perf.figures import percentile

POLL_SECONDS: Final = 5.0
WORKERS: Final = 32
SAMPLE_EVERY: Final = 10
PUBLISH_SAMPLE: Final = 5000

_WATCHES: Final[set[asyncio.Task[None]]] = set()


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a program: a number of records of a topic, on the server at an address.

    `pace` is in records per second; 0 means no limit. One of `reject_every` records is rejected; 0: none.
    """

    address: str
    topic: str
    group: str = ""
    records: int = 0
    record_bytes: int = 100
    partitions: int = 1
    rounds: int = 1
    pace: float = 0.0
    reject_every: int = 0


class Stopwatch:
    """Starts with the first record, so that joining a group does not count."""

    def __init__(self) -> None:
        self._begun = 0.0
        self._cpu = 0.0

    def start(self) -> None:
        """Starts the stopwatch; a second call has no effect."""
        if not self._begun:
            self._begun, self._cpu = time.perf_counter(), time.process_time()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._begun

    def read(self, count: int) -> dict[str, float]:
        """Returns records per second since the start, and this process's microseconds of CPU per record."""
        cpu = time.process_time() - self._cpu
        return {"rate": count / self.seconds, "client_cpu": cpu / count * 1e6}


class Short(Exception):
    """Fewer records than expected were received or confirmed."""


async def publish(work: Work) -> dict[str, float]:
    """Case 2: one Producer; every record is confirmed at the end."""
    await _create(work)
    watch, late = Stopwatch(), list[float]()
    async with Producer(work.address) as producer:
        watch.start()
        await _publish(producer, work, range(work.records), late)
        figures = watch.read(work.records)
    return _named("publish", figures, late)


async def each(work: Work) -> dict[str, float]:
    """Case 3: every record is acknowledged by its own call, and every result is checked."""
    return await _each(work, "each")


async def paced(work: Work) -> dict[str, float]:
    """Case 9: the same at `pace`, so that no record queues behind thousands of others."""
    return await _each(work, "paced")


async def _each(work: Work, case: str) -> dict[str, float]:
    await _start_group(work)
    watch, waits = Stopwatch(), list[float]()
    open_: deque[Acknowledgement] = deque()
    taken = confirmed = 0
    async with _consumer(work) as consumer:
        while taken < work.records:
            records = await consumer.poll(POLL_SECONDS)
            watch.start()
            _need(records, taken, work.records)
            open_.extend(_acknowledge(record, work) for record in records)
            _watch(open_[-len(records)], waits)
            taken += len(records)
            while open_ and open_[0].done:
                await open_.popleft()
                confirmed += 1
            if work.pace:
                await asyncio.sleep(taken / work.pace - watch.seconds)
        for acknowledgement in open_:
            await acknowledgement
            confirmed += 1
        figures = watch.read(confirmed)
    return _named(case, figures, waits)


def _acknowledge(record: Record, work: Work) -> Acknowledgement:
    if work.reject_every and record.offset % work.reject_every == 0:
        return record.reject()
    return record.accept()


async def by_range(work: Work) -> dict[str, float]:
    """Case 4: polls are accepted as a whole; every tenth outcome is awaited."""
    await _start_group(work)
    watch, waits = Stopwatch(), list[float]()
    confirmed = taken = polls = 0

    def settled(outcome: AcknowledgementOutcome) -> None:
        nonlocal confirmed
        if outcome.error is not None:
            raise outcome.error
        confirmed += len(outcome.offsets)

    config = ConsumerConfig(share_acknowledgement_mode="implicit", acknowledgement_commit_callback=settled)
    async with _consumer(work, config) as consumer:
        while taken < work.records:
            records = await consumer.poll(POLL_SECONDS)
            watch.start()
            _need(records, taken, work.records)
            taken += len(records)
            polls += 1
            if polls % SAMPLE_EVERY:
                consumer.commit_async()
            else:
                await _time(consumer.commit(), waits)
        await consumer.commit()
        while confirmed < taken:
            await consumer.commit()
        figures = watch.read(confirmed)
    return _named("range", figures, waits)


async def waiting(work: Work) -> dict[str, float]:
    """Case 5: each task takes its next record after it has the result of the one before."""
    await _start_group(work)
    watch, waits = Stopwatch(), list[float]()
    queue: asyncio.Queue[Callable[[], Acknowledgement]] = asyncio.Queue(WORKERS)

    async def worker() -> None:
        while True:
            accept = await queue.get()
            await _time(accept(), waits)
            queue.task_done()

    async with _consumer(work) as consumer:
        workers = [asyncio.create_task(worker()) for _ in range(WORKERS)]
        left = work.records
        async for record in consumer:
            watch.start()
            await queue.put(record.accept)
            left -= 1
            if not left:
                break
        await queue.join()
        figures = watch.read(work.records)
        for task in workers:
            task.cancel()
    return _named("waiting", figures, waits)


async def first(work: Work) -> dict[str, float]:
    """Case 7: from connecting to the first record, each time with a new group."""
    waits = []
    for turn in range(work.rounds):
        fresh = replace(work, group=f"{work.group}-{turn}")
        await _start_group(fresh)
        begun = time.perf_counter()
        async with _consumer(fresh) as consumer:
            records = await consumer.poll(POLL_SECONDS)
            waits.append(time.perf_counter() - begun)
            _need(records, 0, 1)
            for record in records:
                record.release()
    return {"first.p50": percentile(waits, 0.5) * 1e3, "first.max": max(waits) * 1e3}


async def spread(work: Work) -> dict[str, float]:
    """Case 6: share-partitions are warmed up, then each gets the same number of records."""
    await _create(work)
    await _start_group(work)
    watch = Stopwatch()
    async with Producer(work.address) as producer, _consumer(work) as consumer:
        warm = 10 * work.partitions
        await _publish(producer, work, range(warm), [])
        await _accept_all(consumer, warm)
        await _publish(producer, work, range(work.records), [])
        watch.start()
        await _accept_all(consumer, work.records)
        figures = watch.read(work.records)
    return {f"partitions.{work.partitions}": figures["rate"]}


async def _accept_all(consumer: ShareConsumer, count: int) -> None:
    open_: list[Acknowledgement] = []
    while len(open_) < count:
        records = await consumer.poll(POLL_SECONDS)
        _need(records, len(open_), count)
        open_ += [record.accept() for record in records]
    for acknowledgement in open_:
        await acknowledgement


async def _create(work: Work) -> None:
    async with Admin(work.address) as admin:
        await admin.create_topic(work.topic, work.partitions)


async def _start_group(work: Work) -> None:
    """Makes a new group that starts at the earliest record."""
    async with Admin(work.address) as admin:
        await admin.alter_group_configs(work.group, {"share.auto.offset.reset": "earliest"})


async def _publish(producer: Producer, work: Work, indexes: range, late: list[float]) -> None:
    """Publishes records to the partitions in turn, in runs as long as a batch."""
    payload = b"x" * work.record_bytes
    run = max(1, len(indexes) // work.partitions)
    for index in indexes:
        sent = await producer.send(work.topic, payload, partition=index // run % work.partitions)
        if index % PUBLISH_SAMPLE == 0:
            _watch(sent, late)
    await producer.flush()


def _consumer(work: Work, config: ConsumerConfig | None = None) -> ShareConsumer:
    return ShareConsumer(work.address, work.group, [work.topic], config)


def _watch(outcome: Awaitable[object], into: list[float]) -> None:
    """Measures in the background how long an outcome takes from now on."""
    task = asyncio.ensure_future(_time(outcome, into))
    _WATCHES.add(task)
    task.add_done_callback(_WATCHES.discard)


async def _time(outcome: Awaitable[object], into: list[float]) -> None:
    begun = time.perf_counter()
    await outcome
    into.append(time.perf_counter() - begun)


def _need(records: Sequence[object], taken: int, wanted: int) -> None:
    if not records:
        raise Short(f"only {taken} of {wanted} records arrived")


def _named(case: str, figures: Mapping[str, float], waits: list[float]) -> dict[str, float]:
    """Returns a case's figures by their keys, with percentiles of the waits."""
    times = {"ack_p50": percentile(waits, 0.5) * 1e3, "ack_p99": percentile(waits, 0.99) * 1e3}
    return {f"{case}.{name}": value for name, value in {**figures, **times}.items()}


Program = Callable[[Work], Coroutine[Any, Any, dict[str, float]]]

PROGRAMS: Final[Mapping[str, Program]] = {
    "publish": publish,
    "each": each,
    "paced": paced,
    "range": by_range,
    "waiting": waiting,
    "first": first,
    "spread": spread,
}


def main(case: str, parameters: str) -> None:
    """Runs one program."""
    with traced():
        gc.freeze()  # as a service would: full collections need not look at what was loaded
        figures = uvloop.run(PROGRAMS[case](Work(**json.loads(parameters))))
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
