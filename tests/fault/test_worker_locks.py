"""Workers with locks of an hour: a job runs once when its leader dies, and again when its worker dies."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic

import pytest

from sharebroker import Admin, ConsumerConfig, Producer, Record, ShareConsumer, Worker, WorkerConfig
from sharebroker_protocol.errors import KafkaError
from tests.testkit.brokers import Cluster, four_processes, one_process
from tests.testkit.waiting import eventually, until

HOUR = 3_600_000
TIMEOUT = 60.0
SESSION = 6.0
SETTINGS = (
    f"group.share.session.timeout.ms={SESSION * 1000:.0f}",
    "group.share.min.session.timeout.ms=1000",
    "group.share.heartbeat.interval.ms=500",
    "group.share.min.heartbeat.interval.ms=100",
)

PROGRAM = f"""
import pathlib, sys, threading
from sharebroker import ConsumerConfig, Worker, WorkerConfig

def handler(record):
    pathlib.Path(sys.argv[2]).touch()
    threading.Event().wait()

config = WorkerConfig(graceful_shutdown_timeout=0.2, consumer=ConsumerConfig(lock_ms={HOUR}))
Worker(sys.argv[1], "workers", ["jobs"], handler, config).run()
"""


def prepare(address: str) -> None:
    """Creates the topic, and a group that starts with its first record."""
    with Admin(address) as admin:
        admin.create_topic("jobs", 1)
        admin.alter_group_configs("workers", {"share.auto.offset.reset": "earliest"})


def publish(address: str, value: bytes) -> None:
    with Producer(address) as producer:
        producer.send("jobs", value).result(TIMEOUT)


def lag(address: str) -> int | None:
    """The records that are not finished; None while a role is not available."""
    try:
        with Admin(address) as admin:
            return sum(offset.lag or 0 for offset in admin.group_offsets("workers").values())
    except KafkaError:
        return None


class Jobs:
    """Handlers of one or more workers; the record `long` ends when `finish` is set."""

    def __init__(self) -> None:
        self.started: list[bytes | None] = []
        self.accepted: list[bytes | None] = []
        self.failures: list[str] = []
        self.finish = asyncio.Event()

    async def __call__(self, record: Record) -> None:
        self.started.append(record.value)
        if record.value == b"long":
            await self.finish.wait()

    def worker(self, address: str) -> Worker:
        config = WorkerConfig(
            concurrency=4,
            handle_signals=False,
            consumer=ConsumerConfig(lock_ms=HOUR),
            on_success=lambda record: self.accepted.append(record.value),
            on_failure=lambda _, error: self.failures.append(f"failed: {error}"),
            on_lock_lost=lambda record: self.failures.append(f"lost: {record}"),
            on_unconfirmed=lambda _, error: self.failures.append(f"unconfirmed: {error}"),
        )
        return Worker(address, "workers", ["jobs"], self, config)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("start", [one_process, four_processes])
async def test_the_job_runs_once_when_its_leader_is_killed(
    start: Callable[[], AbstractContextManager[Cluster]],
) -> None:
    with start() as cluster:
        await asyncio.to_thread(prepare, cluster.address)
        jobs = Jobs()
        workers = [jobs.worker(cluster.address) for _ in range(2)]
        tasks = [asyncio.create_task(worker.run_async()) for worker in workers]
        try:
            await asyncio.to_thread(publish, cluster.address, b"long")
            await eventually(lambda: jobs.started == [b"long"], TIMEOUT)
            for value in (b"first", b"second"):
                leader = cluster.process("share-partition-leader")
                await asyncio.to_thread(leader.kill)
                await asyncio.to_thread(leader.start)
                await asyncio.to_thread(publish, cluster.address, value)
                await eventually(partial(jobs.accepted.__contains__, value), TIMEOUT)
            jobs.finish.set()
            await eventually(lambda: b"long" in jobs.accepted, TIMEOUT)
        finally:
            for worker in workers:
                worker.stop()
            await asyncio.gather(*tasks)
        assert jobs.started == jobs.accepted[-1:] + jobs.accepted[:-1] == [b"long", b"first", b"second"]
        assert jobs.failures == []
        assert await asyncio.to_thread(lag, cluster.address) == 0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with one_process(*(option for setting in SETTINGS for option in ("--set", setting))) as cluster:
        prepare(cluster.address)
        publish(cluster.address, b"job")
        yield cluster


@contextmanager
def working(cluster: Cluster, started: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a worker until it has begun its job."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM, cluster.address, str(started)]) as process:
        try:
            until(started.exists, TIMEOUT)
            yield process
        finally:
            process.kill()


@pytest.mark.timeout(120)
def test_the_session_timeout_of_a_killed_worker_returns_its_job(cluster: Cluster, tmp_path: Path) -> None:
    with working(cluster, tmp_path / "started") as process:
        process.kill()
        process.wait(TIMEOUT)
    killed = monotonic()
    with ShareConsumer(cluster.address, "workers", ["jobs"]) as consumer:
        (record,) = consumer.poll(TIMEOUT)
        assert SESSION - 1.0 <= monotonic() - killed < TIMEOUT
        assert (record.value, record.delivery_count) == (b"job", 2)
        record.accept()


@pytest.mark.timeout(120)
def test_a_worker_that_stops_returns_its_job_at_once(cluster: Cluster, tmp_path: Path) -> None:
    with working(cluster, tmp_path / "started") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT) == 0
    stopped = monotonic()
    with ShareConsumer(cluster.address, "workers", ["jobs"]) as consumer:
        (record,) = consumer.poll(TIMEOUT)
        assert monotonic() - stopped < SESSION - 1.0
        assert (record.value, record.delivery_count) == (b"job", 1)
        record.accept()
