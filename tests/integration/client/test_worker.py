"""`Worker` against a running server."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from time import monotonic
from uuid import uuid4

import pytest

from sharebroker import Admin, Producer, Record, Reject, Retry, ShareConsumer, Worker, WorkerConfig
from tests.testkit.brokers import one_process
from tests.testkit.waiting import until

TIMEOUT = 40.0

PROGRAM = """
import pathlib, sys, threading
from sharebroker import Worker, WorkerConfig

def handler(record):
    pathlib.Path(sys.argv[4]).touch()
    threading.Event().wait()

config = WorkerConfig(graceful_shutdown_timeout=0.2)
Worker(sys.argv[1], sys.argv[2], [sys.argv[3]], handler, config).run()
"""


def prepared(server: str, values: list[bytes], **configs: str) -> tuple[str, str]:
    """Creates a topic with these records, and a group that starts with the first; returns their names."""
    topic, group = f"topic-{uuid4().hex[:12]}", f"group-{uuid4().hex[:12]}"
    with Admin(server) as admin:
        admin.create_topic(topic, 2)
        properties = {name.replace("_", "."): value for name, value in configs.items()}
        admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest", **properties})
    with Producer(server) as producer:
        for value in values:
            producer.send(topic, value, key=value)
    return topic, group


def lag(server: str, group: str) -> int:
    with Admin(server) as admin:
        return sum(offset.lag or 0 for offset in admin.group_offsets(group).values())


@pytest.mark.timeout(90)
async def test_retries_are_delayed_and_every_record_is_finished(server: str) -> None:
    values = [b"%d" % number for number in range(120)]
    topic, group = prepared(server, values)
    deliveries: dict[bytes, list[float]] = {value: [] for value in values}
    outcomes: Counter[str] = Counter()

    async def handler(record: Record) -> None:
        assert record.value is not None
        deliveries[record.value].append(monotonic())
        number = int(record.value)
        if number % 10 == 7:
            raise Reject("ends with 7")
        if number % 3 == 0 and record.delivery_count == 1:
            raise Retry(0.3) if number % 2 else ValueError("the first try fails")

    def failed(record: Record, error: Exception) -> None:
        outcomes["rejected" if isinstance(error, Reject) else "released"] += 1

    def succeeded(record: Record) -> None:
        outcomes["accepted"] += 1
        if outcomes["accepted"] + outcomes["rejected"] == len(values):
            worker.stop()

    config = WorkerConfig(concurrency=20, backoff=0.3, on_success=succeeded, on_failure=failed)
    worker = Worker(server, group, [topic], handler, config)
    async with asyncio.timeout(TIMEOUT):
        await worker.run_async()
    rejected = [value for value in values if value.endswith(b"7")]
    retried = [value for value in values if int(value) % 3 == 0 and value not in rejected]
    assert outcomes == {"accepted": 120 - len(rejected), "rejected": len(rejected), "released": len(retried)}
    for value, times in deliveries.items():
        assert len(times) == (2 if value in retried else 1), value
        assert value not in retried or times[1] - times[0] >= 0.29
    assert lag(server, group) == 0


@pytest.mark.timeout(90)
async def test_handler_that_takes_longer_than_the_lock_keeps_it(server: str) -> None:
    topic, group = prepared(server, [b"long"], share_record_lock_duration_ms="1000")
    lost: list[Record] = []
    handled: list[int] = []

    def handler(record: Record) -> None:
        handled.append(record.delivery_count)
        threading.Event().wait(3)

    config = WorkerConfig(idle_timeout=2, on_lock_lost=lost.append)
    async with asyncio.timeout(TIMEOUT):
        await Worker(server, group, [topic], handler, config).run_async()
    assert (handled, lost) == ([1], [])


@pytest.mark.timeout(90)
def test_hanging_handler_does_not_keep_the_process_alive(server: str, tmp_path: Path) -> None:
    topic, group = prepared(server, [b"hang"])
    started = tmp_path / "started"
    command = [sys.executable, "-c", PROGRAM, server, group, topic, str(started)]
    with subprocess.Popen(command) as process:
        try:
            until(started.exists, TIMEOUT)
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT) == 0
        finally:
            process.kill()
    with ShareConsumer(server, group, [topic]) as consumer:
        (record,) = consumer.poll(TIMEOUT)
        assert (record.value, record.delivery_count) == (b"hang", 1)
        record.accept()


@pytest.mark.servers
@pytest.mark.timeout(120)
async def test_lost_lock_is_reported_when_the_server_restarts() -> None:
    with one_process() as cluster:
        topic, group = await asyncio.to_thread(prepared, cluster.address, [b"a"])
        lost: list[int] = []
        outcomes: list[str] = []
        running, restarted = asyncio.Event(), asyncio.Event()

        async def handler(record: Record) -> None:
            running.set()
            await restarted.wait()

        def succeeded(record: Record) -> None:
            outcomes.append("accepted")
            worker.stop()

        config = WorkerConfig(
            on_lock_lost=lambda record: lost.append(record.offset),
            on_success=succeeded,
            on_unconfirmed=lambda _, error: outcomes.append(error.code.name),
        )
        worker = Worker(cluster.address, group, [topic], handler, config)
        task = asyncio.create_task(worker.run_async())
        async with asyncio.timeout(TIMEOUT):
            await running.wait()
        await asyncio.to_thread(cluster.processes[0].restart)
        restarted.set()
        async with asyncio.timeout(TIMEOUT):
            await task
    assert lost == [0]
    assert outcomes == ["NETWORK_EXCEPTION", "accepted"]
