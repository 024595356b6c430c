"""Metrics of links to Redis, and the readiness check."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sharebroker_server.redis_link.link import RedisLink
from sharebroker_server.redis_link.links import link_families, unreachable
from sharebroker_server.redis_link.port import Link, RedisError, RedisOutcomeUnknown, RedisUnavailable
from sharebroker_server.redis_link.server import ServerInfo


class FakeLink(RedisLink):
    """A link to one server that a test can disconnect."""

    connected = True
    server_incarnation = 0

    def __init__(self, server: ServerInfo, error: RedisError | None = None) -> None:
        self.server = server
        self.error = error
        self.commands: list[Any] = []
        self.waited = 0

    @property
    def nodes(self) -> list[RedisLink]:
        return [self]

    async def ready(self, timeout: float) -> None:
        self.waited += 1
        if not self.connected:
            raise RedisUnavailable("not connected")

    async def call(self, command: Any, *parts: Any, timeout: float) -> Any:
        self.commands.append(command)
        if self.error is not None:
            raise self.error


class FakeCluster:
    """A link to several servers."""

    connected = True
    server_incarnation = 2

    def __init__(self, *nodes: FakeLink) -> None:
        self.nodes = nodes

    async def ready(self, timeout: float) -> None:
        pass


def cluster(*nodes: FakeLink) -> Link:
    return cast("Link", FakeCluster(*nodes))


VALKEY, REDIS = ServerInfo("valkey", "8.0.1"), ServerInfo("redis", "7.4.0")


def test_metrics_are_labelled_by_purpose_and_count_servers_by_version() -> None:
    single = FakeLink(REDIS)
    single.connected = False
    links = {"all": cluster(FakeLink(VALKEY), FakeLink(REDIS), FakeLink(VALKEY)), "reads": single}
    samples = {family.name: [sample[:2] for sample in family.samples] for family in link_families(links)}
    every, reads = ("link", "all"), ("link", "reads")
    assert samples == {
        "sharebroker_redis_connected": [(every, True), (reads, False)],
        "sharebroker_redis_changes_total": [(every, 2), (reads, 0)],
        "sharebroker_redis_servers": [
            ((*every, "product", "redis", "version", "7.4.0"), 1),
            ((*every, "product", "valkey", "version", "8.0.1"), 2),
            ((*reads, "product", "redis", "version", "7.4.0"), 1),
        ],
    }


async def test_a_link_is_reachable_if_every_server_responds() -> None:
    nodes = FakeLink(VALKEY), FakeLink(REDIS)
    assert await unreachable(cluster(*nodes)) == ""
    assert [node.commands for node in nodes] == [["PING"], ["PING"]]


@pytest.mark.parametrize("error", [RedisUnavailable("connection lost"), RedisOutcomeUnknown("no reply")])
async def test_one_unresponsive_server_makes_the_link_unreachable(error: RedisError) -> None:
    assert await unreachable(cluster(FakeLink(VALKEY), FakeLink(REDIS, error))) == str(error)


async def test_disconnected_link_may_reconnect_before_it_counts_as_unreachable() -> None:
    link = FakeLink(REDIS)
    link.connected = False
    assert await unreachable(link) == "not connected"
    assert (link.waited, link.commands) == (1, [])
