"""Scenarios of Kafka's ShareConsumerTest (4.2) through the Python client; tests bear Kafka's names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from libs.testkit.brokers import one_process
from tests.scenarios.share_consumer.world import World


@pytest.fixture
def world(server: str) -> Iterator[World]:
    """Topics and groups of its own on the shared server."""
    world = World(server)
    yield world
    world.close()


@pytest.fixture(scope="session")
def small_server() -> Iterator[str]:
    """A server whose groups have three members at most."""
    with one_process("--set", "group.share.max.size=3") as cluster:
        yield cluster.address
