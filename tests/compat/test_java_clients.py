"""Kafka's Java clients of three releases, unmodified: the same tour of a program's calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.kafka_clusters import SharebrokerCluster
from tests.support.kafka_jars import CLIENTS
from tests.support.kafka_tools import needs_kafka, run_program

TOUR = "ClientTour"
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

pytestmark = [needs_kafka, pytest.mark.slow]


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    cluster = SharebrokerCluster(tmp_path, 1, {})
    try:
        cluster.start()
        yield cluster.addresses[0]
    finally:
        cluster.stop()


def first_deliveries() -> list[str]:
    """Returns the records of the tour as a share consumer receives them: headers, null keys and
    tombstones as sent.
    """
    records = []
    for compression in COMPRESSIONS:
        records.append(f"key={compression}, headers [compression={compression}]")
        records.append(f"null={compression} without a key, headers []")
        records.append(f"{compression} deleted=null, headers []")
    records.append("key=in a transaction, headers []")
    return [f"record {offset}: {record}, delivery 1" for offset, record in enumerate(records)]


def check_tour(topic: str, lines: Sequence[str]) -> None:
    """Checks the lines of a tour whose records are in a topic."""
    redelivered = "record 0: key=none, headers [compression=none], delivery 2"
    rest = ["one by one: [1, 1, 1]", f"start of {topic}-0: 17", "group: Empty with 0 members"]
    assert sorted(lines[:17]) == sorted([*first_deliveries(), redelivered])
    assert lines[17:] == rest


@pytest.mark.parametrize("version", CLIENTS)
def test_java_clients_of_every_release_behave_as_with_kafka(bootstrap: str, version: str) -> None:
    check_tour("tour", run_program(TOUR, "tour", bootstrap, jars=CLIENTS[version]).checked().lines)
