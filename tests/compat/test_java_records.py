"""Records of every form, written and read by Java clients of three releases: compressions, times, sizes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.client import unique
from tests.support.kafka_jars import CLIENTS
from tests.support.kafka_tools import needs_kafka, run_program
from tests.testkit.brokers import Cluster, one_process

TOUR = "RecordTour"
RECORDS = 5 * 6 + 1
"""Six in each compression, and the largest."""

pytestmark = [needs_kafka, pytest.mark.xdist_group("java records")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with one_process() as cluster:
        yield cluster


@pytest.mark.parametrize("version", CLIENTS)
@pytest.mark.parametrize(("kind", "time"), [("CreateTime", "sent"), ("LogAppendTime", "later")])
def test_records_are_read_unchanged(cluster: Cluster, version: str, kind: str, time: str) -> None:
    tour = run_program(TOUR, cluster.kafka, unique("records"), kind, jars=CLIENTS[version]).checked()
    assert tour.lines == [
        "beyond the limit: RecordTooLargeException",
        *(f"assigned {offset}: as sent, {kind} {time}" for offset in range(RECORDS)),
        *(f"shared {offset}: as sent, {kind} {time}" for offset in range(RECORDS)),
    ]
