"""The memory of the embedded Valkey per record, and the figures in docs/operations.md."""

from __future__ import annotations

import asyncio
import re
from typing import Final

import pytest
import redis

from tests.architecture.sources import ROOT
from tests.support.client import Client, connected
from tests.testkit.brokers import Cluster, one_process

TABLE: Final = re.compile(r"^\| (100 bytes|1 KB) \| (in batches|one by one) \| ([\d,]+) B \|$", re.MULTILINE)
SIZES: Final = {"100 bytes": 100, "1 KB": 1000}
BATCH: Final = 500
AT_ONCE: Final = 50
TOLERANCE: Final = 0.1


def documented() -> list[tuple[str, str, int]]:
    text = (ROOT / "docs" / "operations.md").read_text()
    return [(size, how, int(figure.replace(",", ""))) for size, how, figure in TABLE.findall(text)]


def used(cluster: Cluster) -> int:
    with redis.Redis.from_url(cluster.redis_url) as server:
        return int(server.info("memory")["used_memory"])


async def publish(client: Client, topic: str, size: int, how: str, records: int) -> None:
    if how == "in batches":
        for _ in range(records // BATCH):
            await client.publish(topic, ["x" * size] * BATCH)
        return
    for _ in range(records // AT_ONCE):
        await asyncio.gather(*(client.publish(topic, ["x" * size]) for _ in range(AT_ONCE)))


@pytest.mark.parametrize(("size", "how", "figure"), documented())
async def test_a_record_takes_the_documented_memory(size: str, how: str, figure: int) -> None:
    records = 20_000 if how == "in batches" else 10_000
    with one_process() as cluster:
        async with connected(cluster.address) as client:
            topic, _ = await client.create(1)
            await publish(client, topic, SIZES[size], how, BATCH)  # what does not grow with the records
            before = used(cluster)
            await publish(client, topic, SIZES[size], how, records)
            assert (used(cluster) - before) / records == pytest.approx(figure, rel=TOLERANCE)


def test_three_figures_are_documented() -> None:
    assert len(documented()) == 3
