"""The memory limit of the embedded Valkey: publishing is rejected there, and everything else continues."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sharebroker_protocol.errors import ErrorCode
from tests.fault.probes import Probes
from tests.support.client import Client, Rejection, connected, rejection
from tests.testkit.brokers import Cluster, one_process
from tests.testkit.waiting import eventually

LIMIT_MIB = 32
TEXT = "x" * 500_000
MOST = 2 * LIMIT_MIB

pytestmark = pytest.mark.xdist_group("fault-memory")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with one_process(
        "--max-memory", f"{LIMIT_MIB}MiB", "--set", "log.retention.check.interval.ms=500"
    ) as cluster:
        yield cluster


async def filled(client: Client, topic: str) -> tuple[int, Rejection]:
    """Publishes until the server rejects it; returns the number of records and the error."""
    for records in range(MOST):
        call = client.publish(topic, [TEXT])
        try:
            await call
        except Exception:
            return records, await rejection(client.publish(topic, [TEXT]))
    raise AssertionError(f"{MOST} records of {len(TEXT)} bytes were accepted")


async def publishes(client: Client, topic: str) -> bool:
    try:
        await client.publish(topic, [TEXT])
    except Exception:
        return False
    return True


async def test_full_memory_rejects_only_records_and_consuming_makes_room(cluster: Cluster) -> None:
    broker = cluster.process("all")
    async with connected(cluster.address) as client:
        probes = Probes(client)
        await probes.prepare()
        topic, topic_id = await client.create(retention_policy="consumed")
        group_id = await client.group()
        records, error = await filled(client, topic)
        assert records * len(TEXT) > LIMIT_MIB << 19
        assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert error.retriable
        assert "raise --max-memory" in error.text
        outcomes = await probes.all(timeout=10.0)
        assert {name for name, outcome in outcomes.items() if outcome.code} <= {"publish"}  # one byte may fit
        held = await client.acquire_all(group_id, topic, records, "member")
        assert [record.offset for record in held] == list(range(records))
        assert set(await client.acknowledge(group_id, "member", held)) == {0}
        assert await client.finished(group_id, topic_id) == set(range(records))
        await eventually(lambda: publishes(client, topic), 20.0)
        await probes.hold()
        await eventually(lambda: "memory limit reached; rejecting records" in broker.log)
        await eventually(lambda: "memory below its limit; accepting records" in broker.log)
        assert "exited" not in broker.log


async def test_deleted_topics_make_room(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        topic, _ = await client.create()
        await filled(client, topic)
        other, _ = await client.create()
        assert not await publishes(client, other)
        await client.delete(topic)
        await eventually(lambda: publishes(client, other), 20.0)
