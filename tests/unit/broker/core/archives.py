"""Parts of archives for tests: topics, groups, share state, and the cluster that has them."""

from __future__ import annotations

from collections.abc import Iterable

from sharebroker_protocol.model import SharePartitionKey, StateBatch, TopicIdPartition
from sharebroker_server.broker.core.archive_plan import GroupsByShard
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.records import CatalogRecord, ConfigRecord, TopicRecord
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.coordinator_runtime.host import shard_of
from sharebroker_server.group_coordinator.core.consumer_groups.commands import Committed
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import OffsetRecord
from sharebroker_server.group_coordinator.core.machine import GroupMachine, Record
from sharebroker_server.group_coordinator.core.share_groups.group import (
    GroupRecord,
    StateRecord,
    TopicState,
)
from sharebroker_server.share_coordinator.core.state import ShareCheckpoint
from tests.testkit.memory.stream_log import MemoryStreamLog

CONFIG = BrokerConfig.parse(())
ORDERS = Topic("orders" + "A" * 16, "orders", 2, {"retention.ms": "1000"}, 77)
BILLS = Topic("bills0" + "A" * 16, "bills", 1)
GROUP = ConfigResource(ResourceType.GROUP, "g")


def catalog(*records: CatalogRecord) -> TopicCatalog:
    """Returns a catalog with the records."""
    found = TopicCatalog()
    for position, record in enumerate(records, 1):
        found.apply(record, position)
    return found


def machine(records: Iterable[Record] = ()) -> GroupMachine:
    """Returns a shard with the records."""
    found = GroupMachine(MetadataCache(MemoryStreamLog(), CONFIG))
    for position, record in enumerate(records, 1):
        found.apply(record, position)
    return found


def groups(*records: Record) -> GroupsByShard:
    """Returns the groups of a cluster with one shard."""
    return GroupsByShard([machine(records)], shard_of)


def state(group_id: str = "g", topic: Topic = ORDERS, partition: int = 0, epoch: int = 4) -> ShareCheckpoint:
    """Returns a share state with three runs."""
    runs = (StateBatch(5, 6, 2, 1), StateBatch(7, 7, 0, 3), StateBatch(9, 9, 4, 5))
    return ShareCheckpoint(
        SharePartitionKey(group_id, topic.topic_id, partition), 8, epoch, 2, 5, 3, 10, 20, runs
    )


def share_group(group_id: str = "g", epoch: int = 6, topics: Iterable[Topic] = (ORDERS,)) -> list[Record]:
    """Returns the records of a group that uses all partitions of the topics."""
    states = {
        topic.topic_id: TopicState(topic.name, 50, {}, frozenset(range(topic.partitions)), since_epoch=2)
        for topic in topics
    }
    return [GroupRecord(group_id, epoch, 9, 2), StateRecord(group_id, states)]


def committed(
    group_id: str = "c", topic: Topic = ORDERS, partition: int = 0, offset: int = 12
) -> OffsetRecord:
    """Returns a consumer group's committed offset."""
    return OffsetRecord(
        group_id, TopicIdPartition(topic.topic_id, partition), Committed(offset, -1, "note", 1000)
    )


TOPICS: list[CatalogRecord] = [TopicRecord(ORDERS), TopicRecord(BILLS)]
SETTING = ConfigRecord(GROUP, "share.delivery.count.limit", "7")
