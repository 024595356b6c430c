"""`make bench-spark`: records a second from a topic into nothing, by our source and by Spark's own for Kafka.

Both read the same topics of one server in one Spark session, in turn. Prints medians, then figures of
planning.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from sharebroker import Producer
from sharebroker_spark.client import GatewayClient as PlanClient
from sharebroker_spark.core.offsets import PlannedBatch
from sharebroker_spark.core.options import read_options
from sharebroker_spark.driver import Driver
from tests.spark.environment import ENVIRONMENT, Program, running
from tests.support.client import connected
from tests.support.kafka_jars import SPARK, is_there
from tests.testkit.brokers import Cluster, one_process

TASKS: Final = (1, 2, 4)
BYTES: Final = {100: 400_000, 1000: 120_000}
"""Records of a topic by their size."""
PARTITIONS: Final = 1000
PLANS: Final = 20
GROWING: Final = (1_000, 10_000, 100_000)
"""Records of a trigger, and its partitions, for which the driver's time is measured."""
SPREAD: Final = 64


def main(
    quick: Annotated[bool, typer.Option(help="A tenth of the records, once.")] = False,
    rounds: Annotated[int, typer.Option(help="How often each reads each topic.")] = 5,
) -> None:
    """Measures both and prints the figures."""
    if not (ENVIRONMENT / ".ready").exists() or not is_there(SPARK):
        typer.echo("Spark and its Kafka source are missing: make bench-spark brings both.")
        raise typer.Exit(2)
    with tempfile.TemporaryDirectory(prefix="sharebroker-bench-") as name, one_process() as cluster:
        asyncio.run(_read(cluster, Path(name), 10 if quick else 1, 1 if quick else rounds))
        _plan(cluster)


async def _read(cluster: Cluster, folder: Path, divisor: int, rounds: int) -> None:
    async with connected(cluster.address) as client:
        topics: list[tuple[str, int, int]] = []
        for size, records in BYTES.items():
            for tasks in TASKS:
                topic = f"records-of-{size}-for-{tasks}"
                await client.create(tasks, name=topic)
                await asyncio.to_thread(_fill, cluster.address, topic, size, records // divisor, tasks)
                topics.append((topic, records // divisor, tasks))
        group = await client.group()
        growing = [(f"triggers-of-{size}", await client.group(), size) for size in GROWING]
        for topic, _, size in growing:
            await client.create(SPREAD, name=topic)
            await asyncio.to_thread(
                _fill, cluster.address, topic, 100, (3 if rounds == 1 else 6) * size, SPREAD
            )
    request: dict[str, Any] = {
        "bootstrap": cluster.address, "kafka": cluster.kafka, "topics": topics, "rounds": rounds,
        "jars": str(SPARK.folder), "folder": str(folder), "group": group, "per_trigger": 8000,
        "growing": growing,
    }  # fmt: skip
    with running("throughput", folder / "spark", json.dumps(request), JDK_JAVA_OPTIONS="") as program:
        await asyncio.to_thread(program.wait_for_value, "done")
        _report(program, topics)


def _fill(address: str, topic: str, size: int, records: int, partitions: int) -> None:
    content = os.urandom(size)
    with Producer(address) as producer:
        for number in range(records):
            producer.send(topic, content, key=b"%08d" % number, partition=number * partitions // records)
        producer.flush()


def _report(program: Program, topics: list[tuple[str, int, int]]) -> None:
    rates: dict[tuple[str, str], list[float]] = {}
    for one in program.reports:
        if "read" in one:
            system, topic, rate = one["read"]
            rates.setdefault((topic, system), []).append(rate)
    typer.echo(f"{'topic':24} {'ours /s':>10} {'kafka /s':>10} {'ratio':>6}")
    for topic, *_ in topics:
        ours, kafka = (statistics.median(rates[topic, system]) for system in ("ours", "kafka"))
        typer.echo(f"{topic:24} {ours:10,.0f} {kafka:10,.0f} {ours / kafka:6.2f}")
    for one in program.reports:
        if "triggers" in one:
            system, triggers = one["triggers"]
            parts = {name: statistics.median(each.get(name, 0) for each in triggers) for name in triggers[0]}
            typer.echo(
                f"stream, {system}: " + ", ".join(f"{name} {value:.0f}" for name, value in parts.items())
            )

    for one in program.reports:
        if "grown" in one:
            size, triggers = one["grown"]
            whole = [each for each in triggers if each["rows"] == size]
            own = statistics.median(each["triggerExecution"] - each["addBatch"] for each in whole)
            source = statistics.median(each["latestOffset"] + each["getBatch"] for each in whole)
            typer.echo(
                f"triggers of {size:,} records: the driver needs {own:.0f} ms, the source {source:.0f} of it"
            )


def _plan(cluster: Cluster) -> None:
    """Measures a trigger of a thousand share-partitions with one record each."""

    async def prepare() -> tuple[str, str]:
        async with connected(cluster.address) as client:
            topic, _ = await client.create(PARTITIONS)
            return topic, await client.group()

    topic, group = asyncio.run(prepare())
    options = read_options({"bootstrap": cluster.address, "topics": topic, "group": group}, streaming=True)
    with closing(PlanClient(cluster.address, waits=True)) as client:
        driver = Driver(options, client)
        batch = driver.plan(PlannedBatch("bench"), None, 0)  # initialises the share-partitions
        idle, full = [], []
        for _ in range(PLANS):
            begun = time.perf_counter()
            batch = driver.plan(batch, None, 0)
            idle.append(time.perf_counter() - begun)
        for _ in range(PLANS // 4):
            _fill(cluster.address, topic, 10, PARTITIONS, PARTITIONS)
            begun = time.perf_counter()
            planned = driver.plan(batch, None, 0)
            full.append(time.perf_counter() - begun)
            batch = planned
        driver.close()
    for what, times in (("nothing new", idle), ("a record in each, committing as many", full)):
        typer.echo(f"plan of {PARTITIONS} share-partitions, {what}: {statistics.median(times) * 1000:.0f} ms")


if __name__ == "__main__":
    typer.run(main)
