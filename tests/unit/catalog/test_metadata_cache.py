"""Metadata cache: changes are applied, listeners are called once per change, gaps and outages are handled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.acls import AclRecord
from sharebroker_server.catalog.machine import SHARD
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.records import (
    CatalogCodec,
    CatalogRecord,
    ClusterRecord,
    ConfigRecord,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic
from sharebroker_server.catalog.users import ScramCredentialDeletedRecord
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.security.acl import binding
from sharebroker_server.security.authentication.scram import ScramMechanism
from sharebroker_server.stream_log.port import Entry
from tests.testkit.memory.stream_log import MemoryStreamLog

GROUP = ConfigResource(ResourceType.GROUP, "g")


class Writer:
    """A fake of the broker that owns the catalog."""

    def __init__(self) -> None:
        self.log = MemoryStreamLog()
        self.position = 0

    async def write(self, *records: CatalogRecord) -> None:
        payloads = [CatalogCodec().encode(record) for record in records]
        await self.log.append(SHARD, 1, self.position + 1, payloads)
        self.position += len(records)


NEW = {"share.version": 3}
"""The levels of a new cluster."""


@pytest.fixture
async def writer() -> Writer:
    writer = Writer()
    await writer.write(TopicRecord(Topic("T1", "a", 1)))
    return writer


@pytest.fixture
async def cache(writer: Writer) -> AsyncIterator[MetadataCache]:
    cache = MetadataCache(writer.log, BrokerConfig(), poll=0.005, new=NEW)
    await cache.start()
    yield cache
    await cache.stop()


async def test_start_reads_to_the_end_of_the_log(cache: MetadataCache) -> None:
    assert cache.topic("a") == cache.topic_by_id("T1") == Topic("T1", "a", 1)
    assert not cache.is_deleted("T1")


@pytest.mark.parametrize(
    ("topic_id", "partition", "exists"),
    [("T1", 0, True), ("T1", 1, False), ("T1", -1, False), ("T2", 0, False)],
)
async def test_partition_exists_within_its_topic(
    cache: MetadataCache, topic_id: str, partition: int, exists: bool
) -> None:
    assert cache.partition_exists(topic_id, partition) is exists


async def test_observers_are_notified_once_of_each_change(cache: MetadataCache, writer: Writer) -> None:
    observed: list[CatalogRecord] = []
    cache.add_observer(observed.append)
    changes: list[CatalogRecord] = [TopicRecord(Topic("T2", "b", 2)), TopicDeletedRecord("T1")]
    await writer.write(*changes)
    await cache.wait_for(lambda catalog: catalog.is_deleted("T1"), 5)
    assert cache.topic("b") == Topic("T2", "b", 2)
    assert cache.is_deleted("T1")
    assert observed == changes


async def test_stored_levels_of_features_replace_the_default_ones(
    cache: MetadataCache, writer: Writer
) -> None:
    assert cache.features == NEW
    await writer.write(ClusterRecord("c"))
    await cache.wait_for(lambda catalog: catalog.cluster_id == "c", 5)
    assert cache.features == {"share.version": 1, "transaction.version": 2}
    await writer.write(ClusterRecord("c", {"share.version": 0}, 2))
    await cache.wait_for(lambda catalog: catalog.features_epoch == 2, 5)
    assert cache.features == {"share.version": 0}


async def test_nudge_polls_at_once(writer: Writer) -> None:
    cache = MetadataCache(writer.log, BrokerConfig(), poll=3600)
    await cache.start()
    await writer.write(TopicRecord(Topic("T2", "b", 2)))
    await cache.wait_for(lambda catalog: catalog.topic("b") is not None, 5)
    await cache.stop()


async def test_wait_for_a_topic_times_out(cache: MetadataCache) -> None:
    with pytest.raises(KafkaError) as caught:
        await cache.wait_for(lambda catalog: catalog.topic("never") is not None, 0.01)
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_config_is_effective_once_its_record_is_applied(cache: MetadataCache, writer: Writer) -> None:
    assert cache.group_config("g").share_auto_offset_reset == "latest"
    assert cache.group_config("g") is cache.group_config("other")
    await writer.write(
        ConfigRecord(GROUP, "share.auto.offset.reset", "earliest"),
        ConfigRecord(ConfigResource(ResourceType.BROKER, ""), "log.retention.ms", "5"),
    )
    await cache.wait_for(lambda catalog: bool(catalog.configs(GROUP)), 5)
    assert cache.group_config("g").share_auto_offset_reset == "earliest"
    assert cache.group_config("other").share_auto_offset_reset == "latest"
    assert cache.broker.log_retention_ms == 5
    topic = cache.topic("a")
    assert topic is not None
    assert cache.topic_config(topic).retention_ms == 5


async def test_log_trimmed_past_our_position_is_read_from_its_start(
    cache: MetadataCache, writer: Writer
) -> None:
    await writer.write(
        TopicDeletedRecord("T1"), TopicRecord(Topic("T2", "b", 2)), TopicRecord(Topic("T3", "c", 2))
    )
    await writer.log.trim(SHARD, 1, 3)
    await cache.wait_for(lambda catalog: catalog.position == 4, 5)
    assert cache.topic("a") is None
    assert cache.topic("b") is not None


async def test_configs_removed_in_a_trimmed_log_are_published(cache: MetadataCache, writer: Writer) -> None:
    broker = ConfigResource(ResourceType.BROKER, "")
    await writer.write(
        ConfigRecord(GROUP, "share.auto.offset.reset", "earliest"),
        ConfigRecord(broker, "log.retention.ms", "5"),
    )
    await cache.wait_for(lambda catalog: bool(catalog.configs(broker)), 5)
    assert (cache.group_config("g").share_auto_offset_reset, cache.broker.log_retention_ms) == (
        "earliest",
        5,
    )
    observed: list[CatalogRecord] = []
    cache.add_observer(observed.append)
    topic = TopicRecord(Topic("T2", "b", 2))
    await writer.write(
        ConfigRecord(GROUP, "share.auto.offset.reset", None),
        ConfigRecord(broker, "log.retention.ms", None),
        topic,
    )
    await writer.log.trim(SHARD, 1, writer.position)
    await cache.wait_for(lambda catalog: catalog.topic("b") is not None, 5)
    assert cache.group_config("g").share_auto_offset_reset == "latest"
    assert cache.broker.log_retention_ms == BrokerConfig().log_retention_ms
    *gone, last = observed
    assert last == topic
    assert {(record.resource, record.value) for record in gone if isinstance(record, ConfigRecord)} == {
        (GROUP, None),
        (broker, None),
    }


async def test_unreadable_log_is_retried_and_reported_once(cache: MetadataCache, writer: Writer) -> None:
    tries = asyncio.Semaphore(0)
    read = writer.log.read

    async def counted(shard: str, after: int, limit: int) -> list[Entry]:
        tries.release()
        return await read(shard, after, limit)

    writer.log.read = counted  # type: ignore[method-assign]  # detects the retry
    with capture_logs() as logs:
        writer.log.away = True
        async with asyncio.timeout(5):
            for _ in range(4):
                await tries.acquire()
        writer.log.away = False
        await writer.write(TopicRecord(Topic("T2", "b", 2)))
        await cache.wait_for(lambda catalog: catalog.topic("b") is not None, 5)
    assert [entry["log_level"] for entry in logs] == ["warning"]


async def test_records_before_a_failed_read_are_published(cache: MetadataCache, writer: Writer) -> None:
    observed: list[CatalogRecord] = []
    cache.add_observer(observed.append)
    read = writer.log.read

    async def once(shard: str, after: int, limit: int) -> list[Entry]:
        entries = await read(shard, after, limit)
        writer.log.away = bool(entries)
        return entries

    writer.log.read = once  # type: ignore[method-assign]  # unavailable after the first page
    change = ConfigRecord(GROUP, "share.auto.offset.reset", "earliest")
    await writer.write(change)
    await cache.wait_for(lambda catalog: bool(catalog.configs(GROUP)), 5)
    assert observed == [change]
    assert cache.group_config("g").share_auto_offset_reset == "earliest"


async def test_failing_observer_does_not_stop_polling(cache: MetadataCache, writer: Writer) -> None:
    def broken(record: CatalogRecord) -> None:
        raise RuntimeError("a fault of ours")

    cache.add_observer(broken)
    with capture_logs() as logs:
        for name in ("b", "c"):
            await writer.write(TopicRecord(Topic(f"T{name}", name, 1)))
            await cache.wait_for(lambda catalog: catalog.topic(name) is not None, 5)  # noqa: B023
    assert [entry["event"] for entry in logs] == ["catalog poll failed"] * 2


async def test_stop_before_start_does_not_raise() -> None:
    await MetadataCache(MemoryStreamLog(), BrokerConfig()).stop()


async def test_truncated_and_continued_log_is_reloaded(cache: MetadataCache, writer: Writer) -> None:
    await writer.write(ConfigRecord(GROUP, "share.auto.offset.reset", "earliest"))
    await writer.write(TopicRecord(Topic("T2", "lost", 1)))
    await cache.wait_for(lambda catalog: catalog.topic("lost") is not None, 5)
    await writer.log.delete(SHARD)
    writer.position = 0
    await writer.write(TopicRecord(Topic("T1", "a", 1)), TopicRecord(Topic("T3", "c", 1)))
    await cache.recheck()
    await cache.wait_for(lambda catalog: catalog.topic("c") is not None, 5)
    assert cache.topic("lost") is None
    assert cache.group_config("g").share_auto_offset_reset == "latest"
    await writer.write(TopicRecord(Topic("T4", "d", 1)))
    await cache.wait_for(lambda catalog: catalog.topic("d") is not None, 5)


async def test_changes_of_users_and_acls_are_observed(writer: Writer, cache: MetadataCache) -> None:
    acl = binding(2, "orders", 3, "User:alice", "*", 3, 3)
    changes: list[bool] = []
    cache.add_access_observer(lambda: changes.append(acl in cache.catalog.acls))
    await writer.write(TopicRecord(Topic("T2", "b", 1)))
    await cache.wait_for(lambda catalog: catalog.topic("b") is not None, 5)
    assert changes == []
    await writer.write(AclRecord(acl))
    await cache.wait_for(lambda catalog: acl in catalog.acls, 5)
    assert changes == [True]
    await writer.write(ScramCredentialDeletedRecord("alice", ScramMechanism.SCRAM_SHA_256))
    await cache.wait_for(lambda catalog: catalog.access_changes == 2, 5)
    assert changes == [True, True]


async def test_a_reload_is_a_change_of_users_and_acls(writer: Writer, cache: MetadataCache) -> None:
    acl = binding(2, "orders", 3, "User:alice", "*", 3, 3)
    await writer.write(AclRecord(acl))
    await cache.wait_for(lambda catalog: acl in catalog.acls, 5)
    changes: list[bool] = []
    cache.add_access_observer(lambda: changes.append(acl in cache.catalog.acls))
    await writer.log.delete(SHARD)
    writer.position = 0
    await writer.write(TopicRecord(Topic("T3", "c", 1)))
    await cache.recheck()
    await cache.wait_for(lambda catalog: catalog.topic("c") is not None, 5)
    assert changes == [False]
