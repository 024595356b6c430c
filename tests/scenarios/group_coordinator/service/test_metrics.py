"""Metrics of share groups: states, members, rebalances and lag."""

from __future__ import annotations

import pytest

from sharebroker_protocol.clock import now
from sharebroker_protocol.cluster.v1 import cluster_pb2
from sharebroker_protocol.model import SharePartitionKey, TopicIdPartition
from sharebroker_server.catalog.topics import ConfigResource, ResourceType
from sharebroker_server.group_coordinator.service.metrics import Backlog, GroupMetrics
from sharebroker_server.persister.port import StateSummary
from tests.scenarios.group_coordinator.harness import CONTEXT, Broker, Cluster


def values(metrics: GroupMetrics, name: str) -> dict[tuple[str, ...], float]:
    (family,) = (family for family in metrics.families() if family.name == f"sharebroker_{name}")
    return {sample.labels: sample.value for sample in family.samples}


def metrics_of(broker: Broker, most: int = 10, retention_ms: int = -1) -> GroupMetrics:
    return broker.groups.metrics(lambda: most, lambda topic: retention_ms if topic == "g-topic" else -1)


async def lagging(cluster: Cluster, broker: Broker, group: str, *lags: int) -> None:
    """Creates a group with a member, and a partition for each lag."""
    topic = f"{group}-topic"
    topic_id = await broker.create(topic, len(lags))
    for partition, lag in enumerate(lags):
        cluster.ends.ends[TopicIdPartition(topic_id, partition)] = 10 + lag
    await broker.beat("m", 0, topic, group=group)
    for partition in range(len(lags)):
        cluster.states.states[SharePartitionKey(group, topic_id, partition)] = StateSummary(1, 1, 10, 0)


async def starts_with_the_earliest(broker: Broker, group: str) -> None:
    request = cluster_pb2.IncrementalAlterConfigsRequest()
    resource = request.resources.add(resource_type=cluster_pb2.RESOURCE_TYPE_GROUP, resource_name=group)
    resource.configs.add(name="share.auto.offset.reset", value="earliest")
    await broker.until(lambda: broker.catalog.IncrementalAlterConfigs(request, CONTEXT))
    changed = ConfigResource(ResourceType.GROUP, group)
    await broker.follower.wait_for(lambda catalog: bool(catalog.configs(changed)), 5)


async def test_metrics_show_the_last_refresh(cluster: Cluster, broker: Broker) -> None:
    metrics = metrics_of(broker)
    await lagging(cluster, broker, "g", 3, 0)
    assert values(metrics, "share_group_members") == {}
    await metrics.refresh()
    assert values(metrics, "share_group_members") == {("group", "g"): 1}
    assert values(metrics, "share_groups") == {("state", "empty"): 0, ("state", "stable"): 1}
    assert values(metrics, "share_group_lag") == {
        ("group", "g", "topic", "g-topic", "partition", "0"): 3,
        ("group", "g", "topic", "g-topic", "partition", "1"): 0,
    }


async def test_records_of_the_lag_are_counted_by_state(cluster: Cluster, broker: Broker) -> None:
    metrics = metrics_of(broker)
    await lagging(cluster, broker, "g", 9)
    ((key, summary),) = cluster.states.states.items()
    place = TopicIdPartition(key.topic_id, key.partition)
    cluster.states.states[key] = summary._replace(waiting_count=4, archiving_count=1)
    cluster.ends.locked["g", place] = 2
    await metrics.refresh()
    place_labels = ("group", "g", "topic", "g-topic", "partition", "0", "state")
    assert values(metrics, "share_group_records") == {
        (*place_labels, "ready"): 2,
        (*place_labels, "locked"): 2,
        (*place_labels, "waiting"): 4,
        (*place_labels, "archiving"): 1,
    }


@pytest.mark.parametrize(("loaded", "locked"), [(0, 2), (3, 3)])
async def test_durable_locks_count_without_a_loaded_share_partition(
    cluster: Cluster, broker: Broker, loaded: int, locked: int
) -> None:
    metrics = metrics_of(broker)
    await lagging(cluster, broker, "g", 9)
    ((key, summary),) = cluster.states.states.items()
    cluster.states.states[key] = summary._replace(waiting_count=4, locked_count=2)
    cluster.ends.locked["g", TopicIdPartition(key.topic_id, key.partition)] = loaded
    await metrics.refresh()
    counts = {labels[-1]: number for labels, number in values(metrics, "share_group_records").items()}
    assert counts == {"ready": 5 - locked, "locked": locked, "waiting": 4, "archiving": 0}


async def test_locks_count_before_a_start_offset_is_stored(cluster: Cluster, broker: Broker) -> None:
    metrics = metrics_of(broker)
    await starts_with_the_earliest(broker, "g")
    await lagging(cluster, broker, "g", 9)
    ((key, summary),) = cluster.states.states.items()
    cluster.states.states[key] = summary._replace(start_offset=-1)
    cluster.ends.locked["g", TopicIdPartition(key.topic_id, key.partition)] = 2
    await metrics.refresh()
    counts = values(metrics, "share_group_records")
    assert [number for number in counts.values() if number] == [17, 2]


async def test_groups_and_partitions_with_series_are_limited(cluster: Cluster, broker: Broker) -> None:
    metrics = metrics_of(broker, most=1)
    await lagging(cluster, broker, "g", 3, 4)
    await lagging(cluster, broker, "h", 5)
    await metrics.refresh()
    assert list(values(metrics, "share_group_members")) == [("group", "g")]
    assert sorted(values(metrics, "share_group_lag").values()) == [3, 9]


async def test_the_margin_is_the_time_until_retention_deletes_a_record(
    cluster: Cluster, broker: Broker
) -> None:
    metrics = metrics_of(broker, retention_ms=3_600_000)
    await lagging(cluster, broker, "g", 3, 0)
    await lagging(cluster, broker, "h", 3)  # its topic keeps records
    cluster.ends.timestamp = int((now() - 600) * 1000)
    await metrics.refresh()
    ((labels, margin),) = values(metrics, "share_group_retention_margin_seconds").items()
    assert labels == ("group", "g", "topic", "g-topic", "partition", "0")
    assert 2900 < margin <= 3000


def test_combined_lag_has_the_oldest_known_time() -> None:
    assert Backlog(3, 0).plus(Backlog(4, 7)) == Backlog(7, 7)
    assert Backlog(3, 9).plus(Backlog(4, 7)) == Backlog(7, 7)
    assert Backlog(0, 0).plus(Backlog(0, 0)) == Backlog(0, 0)
    assert Backlog(9, 0, 1, 2, 5).plus(Backlog(9, 0, 3, 4, 1)) == Backlog(18, 0, 4, 6, 6)
