"""Java clients of three releases request unsupported features: each receives an error, none retries
indefinitely.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.client import connected
from tests.support.kafka_jars import CLIENTS
from tests.support.kafka_tools import needs_kafka, run_program
from tests.testkit.brokers import Cluster, one_process

TOUR = "UnsupportedTour"
EXPECTED = {
    "consumer": "The cluster does not support the new CONSUMER group protocol. ",
    "share": "The cluster does not support the share group protocol ",
}
"""The operations tried while share.version is 0, and the start of the UnsupportedVersionException's
message.
"""

pytestmark = [needs_kafka, pytest.mark.xdist_group("java unsupported")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with one_process("--feature", "share.version=0") as cluster:
        yield cluster


@pytest.mark.parametrize("version", CLIENTS)
async def test_unsupported_requests_are_rejected(cluster: Cluster, version: str) -> None:
    async with connected(cluster.address) as client:
        topic, _ = await client.create()
    lines = run_program(TOUR, cluster.kafka, topic, *EXPECTED, jars=CLIENTS[version]).checked().lines
    expected = [f"{wanted}: UnsupportedVersionException: {message}" for wanted, message in EXPECTED.items()]
    assert [line[: len(start)] for line, start in zip(lines, expected, strict=True)] == expected
