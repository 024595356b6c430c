"""The code blocks of docs/failures.md: its example and commands in order, and each recipe with a worker."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sharebroker import (
    Admin,
    ConsumerConfig,
    Producer,
    Record,
    Reject,
    Retry,
    Worker,
    WorkerConfig,
)
from tests.architecture.sources import ROOT
from tests.integration.readme.blocks import outputs
from tests.testkit.brokers import Cluster
from tests.testkit.waiting import until

DOCUMENT = "docs/failures.md"
_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EARLIEST = ConsumerConfig(auto_offset_reset="earliest")


def blocks(kind: str) -> list[str]:
    """Returns the document's blocks of a kind: "sh worker" or "python worker"."""
    return [text for found, text in _BLOCK.findall((ROOT / DOCUMENT).read_text()) if found == kind]


def recipe(word: str, **names: object) -> dict[str, Any]:
    """Executes the recipe for a Worker with this word; returns its names, of which `names` are given."""
    (text,) = (block for block in blocks("python worker") if word in block)
    exec(text, names)
    return names


def work(
    address: str, topic: str, handler: Callable[[Record], object], values: list[bytes]
) -> list[tuple[bytes | None, int]]:
    """Publishes records to a topic, runs a worker until it is idle, and returns the deliveries."""
    delivered: list[tuple[bytes | None, int]] = []

    def handle(record: Record) -> object:
        delivered.append((record.value, record.delivery_count))
        return handler(record)

    with Producer(address) as producer:
        for value in values:
            producer.publish(topic, value)
    Worker(address, "workers", [topic], handle, WorkerConfig(idle_timeout=2, consumer=EARLIEST)).run()
    return delivered


@pytest.fixture
def orders(cluster: Cluster) -> str:
    """Creates a topic whose records may have a delivery time."""
    with Admin(cluster.address) as admin:
        admin.create_topic("orders", 1, {"delivery.delay.enable": "true"})
    return "orders"


def test_every_block_is_executed() -> None:
    kinds = [kind for kind, _ in _BLOCK.findall((ROOT / DOCUMENT).read_text()) if kind]
    assert set(kinds) == {"sh run", "sh worker", "python worker"}
    assert kinds.count("sh worker") == 2, "each has a test below"
    assert kinds.count("python worker") == 4, "each has a test below"


@pytest.mark.timeout(180)
def test_failures_document_examples_work(cluster: Cluster, environment: dict[str, str]) -> None:
    _, worked, failed, retried, expiry, limit, again, reset = outputs(DOCUMENT, cluster, environment)
    deliveries = [line for line in worked.splitlines() if ", delivery " in line and "orders" not in line]
    assert deliveries == ["a, delivery 1", "b, delivery 1", "c, delivery 1", "b, delivery 2"]
    assert "exit code 3" in worked
    assert '"first_offset": 2' in failed
    assert "exit code 65" in failed
    assert "Add --execute to retry" in retried
    assert "Group billing has no records to retry." in retried
    assert re.search(r"share\.record\.max\.age\.ms +3600000", expiry)
    assert re.search(r"share\.delivery\.count\.limit +10", limit)
    assert re.search(r"^orders +0 +2 +2 +4", again, re.MULTILINE), "the second copy"
    assert reset.count("\norders") == 2


@pytest.mark.parametrize("number", [0, 1])
def test_recipes_with_a_command_run_it_until_they_are_stopped(
    number: int, cluster: Cluster, environment: dict[str, str], tmp_path: Path
) -> None:
    command = shlex.split(blocks("sh worker")[number])
    topic, group, script = command[2], command[4], tmp_path / command[-1]
    script.write_text(f"#!/bin/sh\ncat >> {tmp_path / 'handled'}\n")
    script.chmod(0o755)
    with Admin(cluster.address) as admin, Producer(cluster.address) as producer:
        admin.create_topic(topic, 1)
        admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"})
        producer.publish(topic, b"one")
    worker = subprocess.Popen(command, cwd=tmp_path, env=environment)
    try:
        until((tmp_path / "handled").exists)
        worker.terminate()
        assert worker.wait(30) == 0
    finally:
        worker.kill()
    assert (tmp_path / "handled").read_text() == "one"


def test_recipe_for_a_pause_counts_no_delivery(cluster: Cluster, orders: str) -> None:
    class Response:
        headers = {"Retry-After": "0.2"}  # noqa: RUF012 - as in an HTTP client

        def __init__(self, status: int) -> None:
            self.status = status

    statuses = iter([429, 429, 200])
    handle = recipe("429", Retry=Retry, call=lambda _: Response(next(statuses)))["handle"]
    assert work(cluster.address, orders, handle, [b"a"]) == 3 * [(b"a", 1)]


def test_recipe_for_invalid_records_rejects_them_with_a_reason(cluster: Cluster, orders: str) -> None:
    handle = recipe("json.loads", Reject=Reject, json=json)["handle"]
    assert work(cluster.address, orders, handle, [b"{}", b"{"]) == [(b"{}", 1), (b"{", 1)]
    with Admin(cluster.address) as admin:
        (entry,) = admin.failed_records("workers", orders).entries
    assert entry.first_offset == 1
    assert entry.reason.startswith("invalid JSON: Expecting property name")


def test_recipe_for_tomorrow_publishes_a_copy_with_a_delivery_time(cluster: Cluster, orders: str) -> None:
    opening = datetime.now(UTC) + timedelta(seconds=1)
    with Producer(cluster.address) as producer:
        handle = recipe(
            "deliver_at",
            producer=producer,
            is_open=lambda _: datetime.now(UTC) >= opening,
            next_opening=lambda: opening,
        )["handle"]
        assert work(cluster.address, orders, handle, [b"a"]) == [(b"a", 1), (b"a", 1)]


def test_recipe_for_hours_requests_a_lock_of_an_hour(cluster: Cluster, orders: str) -> None:
    config = recipe("lock_ms", WorkerConfig=WorkerConfig, ConsumerConfig=ConsumerConfig)["config"]
    remaining: list[float] = []
    with Producer(cluster.address) as producer:
        producer.publish(orders, b"a")
    with Admin(cluster.address) as admin:
        admin.alter_group_configs("workers", {"share.auto.offset.reset": "earliest"})

    def handle(record: Record) -> None:
        remaining.append(record.deadline - time.time())
        worker.stop()

    worker = Worker(cluster.address, "workers", [orders], handle, config)
    worker.run()
    (seconds,) = remaining
    assert 3000 < seconds <= 3600
