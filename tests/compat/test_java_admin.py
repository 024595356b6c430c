"""Kafka's Admin of three releases, unmodified: the same tour of an operator's calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.client import unique
from tests.support.kafka_jars import CLIENTS
from tests.support.kafka_tools import needs_kafka, run_program
from tests.testkit.brokers import Cluster, one_process

TOUR = "AdminTour"
EXPECTED = """\
validated: 2
created: 1 9000
again: TopicExistsException
described: 3
by id: true
listed: true
internal: false
TOPIC set: 7 DYNAMIC_TOPIC_CONFIG
TOPIC put back: 604800000 DEFAULT_CONFIG
TOPIC rejected: InvalidConfigurationException
GROUP set: read_committed DYNAMIC_GROUP_CONFIG
GROUP put back: read_uncommitted DEFAULT_CONFIG
GROUP rejected: InvalidConfigurationException
controller: true
operations: 7
features: {share.version=2, transaction.version=2}
kinds: [BROKER, TOPIC]
deleted: UnknownTopicOrPartitionException
"""

pytestmark = [needs_kafka, pytest.mark.xdist_group("java admin")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with one_process() as cluster:
        yield cluster


@pytest.mark.parametrize("version", CLIENTS)
def test_admin_of_every_release_behaves_as_with_kafka(cluster: Cluster, version: str) -> None:
    tour = run_program(TOUR, cluster.kafka, unique("tour"), jars=CLIENTS[version])
    assert tour.checked().out == EXPECTED
