"""Java clients of three releases commit consumed offsets with produced records: all exactly once, in
order.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.client import connected
from tests.support.kafka_jars import CLIENTS
from tests.support.kafka_tools import needs_kafka, run_program
from tests.testkit.brokers import Cluster, one_process

TOUR = "TransactionTour"
RECORDS = 10

pytestmark = [needs_kafka, pytest.mark.xdist_group("java transactions")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with one_process() as cluster:
        yield cluster


@pytest.mark.parametrize("version", CLIENTS)
async def test_java_clients_of_every_release_consume_and_produce_exactly_once(
    cluster: Cluster, version: str
) -> None:
    async with connected(cluster.address) as client:
        source, _ = await client.create()
        target, _ = await client.create()
        await client.publish(source, [str(number) for number in range(RECORDS)], partition=0)
    tour = run_program(TOUR, cluster.kafka, source, str(RECORDS), target, jars=CLIENTS[version])
    assert tour.checked().lines == ["committed: 10", "moved: 0 1 2 3 4 5 6 7 8 9"]
