"""Kafka clients for each running Sharebroker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.kafka.harness import Harness
from tests.support import kafka_client
from tests.support.client import connected
from tests.support.kafka_client import KafkaClient
from tests.testkit.brokers import Cluster


@pytest.fixture
async def harness(cluster: Cluster) -> AsyncIterator[Harness]:
    """Provides the collaborators of most tests: on one process, then on four."""
    async with connected(cluster.address) as client:
        yield Harness(client, cluster.kafka)


@pytest.fixture
async def kafka(cluster: Cluster) -> AsyncIterator[KafkaClient]:
    """Provides a raw connection."""
    async with kafka_client.connected(cluster.kafka) as client:
        yield client
