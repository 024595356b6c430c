"""The catalog follows another cluster: who writes, what is reported, and what a failure leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast
from unittest.mock import patch
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.machine import CatalogMachine, NameCluster
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.topics import topic_id_text
from sharebroker_server.catalog.upstream_rules import FollowCluster, UpstreamCommand
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.group_coordinator.service import upstream_catalog
from sharebroker_server.group_coordinator.service.shards import CatalogHost
from sharebroker_server.group_coordinator.service.upstream_catalog import UpstreamCatalog
from sharebroker_server.kafka_client.cluster import ClusterClient
from sharebroker_server.kafka_client.core.metadata import ClusterMetadata, Leader, TopicLeaders
from sharebroker_server.kafka_client.settings import upstream_settings
from tests.testkit.waiting import eventually

ONE, TWO = (topic_id_text(uuid4().bytes) for _ in range(2))
AWAY = KafkaError(ErrorCode.NETWORK_EXCEPTION, "Connection refused.")


def seen(*names: str, cluster_id: str = "kafka-1") -> ClusterMetadata:
    ids = dict(zip(names, (ONE, TWO), strict=False))
    topics = {name: TopicLeaders(name, ids[name], {0: Leader(0, 0)}) for name in names}
    return ClusterMetadata(cluster_id, topics=topics)


class CatalogFixture:
    """The catalog's machine as its only shard, and a cluster that answers as scripted."""

    def __init__(self, *answers: ClusterMetadata | Exception, owner: bool = True) -> None:
        self.answers = list(answers)
        self.requested: list[object] = []
        self.described: list[object] = []
        self.undescribed: list[KafkaError] = []
        self.owner = owner
        self.topics_changed = asyncio.Event()
        self.deleted_topics: set[str] = set()
        self.position = 0
        self.machine = CatalogMachine(BrokerConfig.parse(()))
        self._decide(NameCluster("c"))
        self.catalog = self.machine.catalog
        settings = upstream_settings(None, "b1:9092")
        self.topics = UpstreamCatalog(
            cast("CatalogHost", self), cast("MetadataCache", self), cast("ClusterClient", self), settings
        )

    async def refresh(self, topics: Sequence[str] | None = None) -> ClusterMetadata:
        self.requested.append(topics)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def refresh_retention(self, topics: Sequence[str]) -> None:
        self.described.append(topics)
        if self.undescribed:
            raise self.undescribed.pop()

    def shard(self, index: int) -> CatalogFixture:
        assert index == 0
        if not self.owner:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return self

    async def submit(self, command: UpstreamCommand) -> Any:
        return self._decide(command)

    def poll_now(self) -> None:
        """The machine's catalog is current."""

    def names(self) -> list[str]:
        return [topic.name for topic in self.catalog.topics()]

    def _decide(self, command: Any) -> Any:
        decision = self.machine.decide(command, 1.0)
        for record in decision.records:
            self.position += 1
            self.machine.apply(record, self.position)
        return decision.reply


async def test_the_owner_of_the_catalog_stores_cluster_and_topics() -> None:
    fixture = CatalogFixture(seen("a"), seen("a", "b"))
    assert await fixture.topics.look()
    assert (fixture.catalog.upstream_cluster_id, fixture.names()) == ("kafka-1", ["a"])
    await fixture.topics.look()
    assert fixture.names() == ["a", "b"]


async def test_other_processes_only_refresh_their_metadata() -> None:
    fixture = CatalogFixture(seen("a"), seen("a"), owner=False)
    with capture_logs() as lines:
        assert not await fixture.topics.look()  # nor has the owner stored the cluster
    assert (fixture.names(), lines) == ([], [])
    await fixture.submit(FollowCluster("b1:9092", "kafka-1"))
    settings = upstream_settings(None, "b1:9092")
    without = UpstreamCatalog(None, cast("MetadataCache", fixture), cast("ClusterClient", fixture), settings)
    assert await without.look()
    assert fixture.requested == [None, None]


async def test_looks_are_frequent_until_the_id_of_the_cluster_is_stored() -> None:
    fixture = CatalogFixture(seen("a"), seen("a"), seen("a", cluster_id=""), owner=False)
    await fixture.submit(FollowCluster("b1:9092"))  # as a new cluster stores it
    assert not await fixture.topics.look()
    await fixture.submit(FollowCluster("b1:9092", "kafka-1"))
    assert await fixture.topics.look()
    assert await fixture.topics.look()  # a cluster without id


async def test_an_unreachable_cluster_is_stored_and_reported_once() -> None:
    fixture = CatalogFixture(AWAY, AWAY, seen("a"), AWAY)
    with capture_logs() as lines:
        looks = [await fixture.topics.look() for _ in range(4)]
    assert looks == [False, False, True, False]
    reported = [line["reason"] for line in lines if line["event"] == "upstream cluster unreachable"]
    assert reported == ["Connection refused."] * 2
    assert fixture.catalog.upstream_addresses == "b1:9092"
    assert fixture.names() == ["a"]


async def test_retention_is_read_again_after_a_while() -> None:
    fixture = CatalogFixture(*[seen("a")] * 5)
    fixture.undescribed = [AWAY, AWAY]
    with capture_logs() as lines:
        for _ in range(4):
            await fixture.topics.look()
    assert fixture.described == [["a"]] * 3  # the third succeeds
    assert [line["event"] for line in lines if line["log_level"] == "error"] == [
        "retention of upstream topics unknown"
    ]
    with patch.object(upstream_catalog, "RETENTION_SECONDS", 0.0):
        fixture.topics._retention_due = 0.0
        await fixture.topics.look()
    assert len(fixture.described) == 4


async def test_an_unexpected_error_does_not_end_the_task() -> None:
    fixture = CatalogFixture(UnicodeError("label empty or too long"), seen("a"))
    with capture_logs() as lines:
        looks = [await fixture.topics.look() for _ in range(2)]
    assert looks == [False, True]
    assert lines[0]["event"] == "upstream topics not followed"
    assert fixture.names() == ["a"]


async def test_topics_of_another_cluster_are_not_followed() -> None:
    fixture = CatalogFixture(seen("a"), seen("b", cluster_id="kafka-2"))
    await fixture.topics.look()
    with capture_logs() as lines:
        assert await fixture.topics.look()
    assert fixture.names() == ["a"]
    assert ["kafka-2" in line["reason"] for line in lines] == [True]


async def test_a_topic_that_cannot_be_followed_does_not_keep_others() -> None:
    fixture = CatalogFixture(seen("a.b", "a_b"), seen("a.b", "a_b"))
    with capture_logs() as lines:
        await fixture.topics.look()
        await fixture.topics.look()
    assert fixture.names() == ["a.b"]
    assert [line["event"] for line in lines if line["log_level"] == "error"] == [
        "upstream topic not followed"
    ]


async def test_a_topic_that_is_not_listed_is_requested_by_name() -> None:
    hidden = ClusterMetadata("kafka-1", errors={"a": int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)})
    fixture = CatalogFixture(seen("a"), seen(), hidden)
    await fixture.topics.look()
    await fixture.topics.look()
    assert fixture.requested == [None, None, ["a"]]
    assert fixture.names() == ["a"]


async def test_an_unexpected_failure_does_not_end_the_looks() -> None:
    fixture = CatalogFixture(seen("a"), seen(), AWAY, seen("a", "b"))
    await fixture.topics.look()
    with capture_logs() as lines:
        assert await fixture.topics.look()
    assert [line["log_level"] for line in lines] == ["error"]
    await fixture.topics.look()
    assert fixture.names() == ["a", "b"]


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT])
async def test_a_catalog_that_cannot_be_written_now_is_written_later(
    code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = CatalogFixture(seen("a"), seen("a"))

    async def fails(_: UpstreamCommand) -> Any:
        raise KafkaError(code)

    with monkeypatch.context() as patch, capture_logs() as lines:
        patch.setattr(fixture, "submit", fails)
        assert not await fixture.topics.look()
    assert (fixture.names(), lines) == ([], [])
    await fixture.topics.look()
    assert fixture.names() == ["a"]


async def test_a_change_of_topics_is_followed_at_once() -> None:
    fixture = CatalogFixture(seen("a"), seen("a", "b"))
    running = asyncio.create_task(fixture.topics.run())
    await eventually(lambda: fixture.names() == ["a"])
    fixture.topics_changed.set()
    await eventually(lambda: fixture.names() == ["a", "b"])
    assert not fixture.topics_changed.is_set()
    running.cancel()


async def test_a_topic_that_was_deleted_through_this_cluster_has_no_grace() -> None:
    gone = ClusterMetadata("kafka-1", errors={"a": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)})
    fixture = CatalogFixture(seen("a", "b"), seen("b"), gone, seen("b"), gone)
    await fixture.topics.look()
    await fixture.topics.look()
    assert fixture.names() == ["a", "b"]
    fixture.deleted_topics = {topic.topic_id for topic in fixture.catalog.topics() if topic.name == "a"}
    await fixture.topics.look()
    assert fixture.names() == ["b"]
