"""Java consumers of three releases in a consumer group: each resumes at the committed offset of the one
before.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.client import connected
from tests.support.kafka_jars import CLIENTS
from tests.support.kafka_tools import needs_kafka, run_program
from tests.testkit.brokers import Cluster, one_process

TOUR = "ConsumerTour"

pytestmark = [needs_kafka, pytest.mark.xdist_group("java consumers")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with one_process() as cluster:
        yield cluster


@pytest.mark.parametrize("version", CLIENTS)
async def test_java_consumers_of_every_release_resume_at_the_committed_offset(
    cluster: Cluster, version: str
) -> None:
    async with connected(cluster.address) as client:
        topic, _ = await client.create()
        await client.publish(topic, [str(number) for number in range(10)], partition=0)
    lines = run_program(TOUR, cluster.kafka, topic, jars=CLIENTS[version]).checked().lines
    assert lines == ["first: 0 1 2 3", "second: 4 5 6 7 8 9", "committed: moved", "third: 8 9"]
