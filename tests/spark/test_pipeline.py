"""A slice of the flights through the whole pipeline, a tampered log, and rejected options."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from sharebroker.aio.admin import Admin
from sharebroker.blocking.admin import Admin as BlockingAdmin
from sharebroker_protocol.model import TopicPartition
from sharebroker_protocol.storage.v1.share_state_pb2 import ShareStateRecord
from sharebroker_server.flights import dataset
from tests.architecture.sources import ROOT
from tests.pipeline import queue
from tests.pipeline.command import command, finished, micro_batches
from tests.pipeline.verdict import judge
from tests.spark.environment import ENVIRONMENT, START_SECONDS, running
from tests.support.client import connected
from tests.testkit.brokers import Cluster, one_process

FLIGHTS, PARTITIONS = 3_000, 2
pytestmark = [
    pytest.mark.skipif(
        not (ENVIRONMENT / "spark-home").exists(),
        reason="Spark's environment is missing or too old: make spark",
    ),
    pytest.mark.slow,
    pytest.mark.timeout(3 * START_SECONDS),
    pytest.mark.xdist_group("spark pipeline"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with one_process(*queue.SERVER_OPTIONS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def published(cluster: Cluster) -> queue.Published:
    async def prepare() -> queue.Published:
        flights = dataset.flights(dataset.install(ROOT / ".cache" / "flights"), FLIGHTS)
        async with connected(cluster.address) as client, Admin(cluster.address) as admin:
            published = await queue.publish(client, cluster.address, flights, PARTITIONS)
            await queue.work(client, admin, FLIGHTS // 2)
            await queue.disturb(client, admin, 200)
            return published

    return asyncio.run(prepare())


def test_flights_pass_the_pipeline(cluster: Cluster, published: queue.Published, tmp_path: Path) -> None:
    folder = tmp_path / "pipeline"
    ran = finished(command(cluster.address, folder, "--from-beginning", "--json"), 2 * START_SECONDS)
    assert ran.returncode == 0, ran.stderr
    tables = json.loads(ran.stdout)
    assert judge(tables, published, {}, micro_batches(folder)) == []
    assert micro_batches(folder)
    assert {row["kind"] for row in tables["kinds"]} >= {"checkpoint"}
    workers = next(row for row in tables["health"] if row["group"] == queue.WORKERS)
    assert workers["deliveries_per_record"] > 1
    assert any(row["group"] == queue.WORKERS and row["records"] > 0 for row in tables["accept"])
    assert sum(row["flights"] for row in tables["carriers"]) == tables["totals"][0]["silver"]
    page = (folder / "report" / "index.html").read_text()
    assert page.count("<svg ") == 5
    assert "replayed, matches the" in page
    assert "<h1>flights, read by pipeline</h1>" in page
    assert "16 of 16 tables" in ran.stderr

    other = finished(command(cluster.address, folder, "--group", "another"), START_SECONDS)
    assert (other.returncode, len(other.stderr.strip().splitlines())) == (2, 1)
    assert "belongs to topic flights, group pipeline, and so do its checkpoints" in other.stderr


def differences(cluster: Cluster, folder: Path) -> list[str]:
    """Returns the differences that the pipeline's replay finds in the logs of the workers' group."""
    with running("folding", folder, cluster.address, queue.WORKERS) as program:
        found: list[str] = program.wait_for_value("differences")
    return found


def test_a_planted_difference_is_found(cluster: Cluster, published: queue.Published, tmp_path: Path) -> None:
    assert published.records
    assert differences(cluster, tmp_path / "before") == []
    with redis.Redis.from_url(cluster.redis_url) as store, _planted(store, cluster):
        found = differences(cluster, tmp_path / "after")
    assert len(found) == 2
    assert found[0].startswith(f"{queue.TOPIC}-1: The state epoch is ")
    assert found[1].startswith(
        f"{queue.TOPIC}-1: 1000000 to 1000004: In the log: archived, delivered 3 times; "
    )


@contextmanager
def _planted(store: Any, cluster: Cluster) -> Iterator[None]:
    """Provides a checkpoint in the log that differs from the coordinator's state; restores the log at the
    end.
    """
    with BlockingAdmin(cluster.address) as admin:
        stored = admin.inspect_state(queue.WORKERS, TopicPartition(queue.TOPIC, 1))
    checkpoint = stored.records[0]
    assert checkpoint.kind == "checkpoint"
    rows = [(entry, fields[b"p"]) for entry, fields in store.xrange(stored.stream)]
    _put(store, stored.stream, [(entry, _changed(entry, row, checkpoint.position)) for entry, row in rows])
    yield
    _put(store, stored.stream, rows)


def _changed(entry: bytes, payload: bytes, position: int) -> bytes:
    if entry != f"{position}-0".encode():
        return payload
    record = ShareStateRecord.FromString(payload)
    record.checkpoint.state_epoch += 1
    record.checkpoint.state_batches.add(
        first_offset=1_000_000, last_offset=1_000_004, delivery_state=4, delivery_count=3
    )
    return record.SerializeToString()


def _put(store: Any, stream: str, rows: list[tuple[bytes, bytes]]) -> None:
    """Replaces a stream in one step."""
    with store.pipeline(transaction=True) as step:
        step.delete(stream)
        for entry, payload in rows:
            step.xadd(stream, {"p": payload}, id=entry)
        step.execute()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--server", "127.0.0.1:1"), "sharebroker serve"),
        (("--watch", "absent"), "absent"),
        (("--spark", "/nowhere"), "make spark"),
        (("--records-per-trigger", "0"), "--records-per-trigger"),
    ],
)
def test_invalid_options_end_at_once(
    cluster: Cluster, published: queue.Published, tmp_path: Path, options: tuple[str, str], text: str
) -> None:
    assert published.records
    ran = finished(command(cluster.address, tmp_path / "none", *options), START_SECONDS)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert text in ran.stderr
    assert not (tmp_path / "none").exists()
