"""Which topics of another cluster the catalog follows, and when it deletes them."""

from __future__ import annotations

from uuid import uuid4

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.records import TopicDeletedRecord, TopicRecord
from sharebroker_server.catalog.topics import Topic, topic_id_text
from sharebroker_server.catalog.upstream_rules import FollowTopic, ForgetTopic, is_own_id
from sharebroker_server.group_coordinator.core.followed_topics import GRACE, LOOKS, FollowedTopics, own_id
from sharebroker_server.kafka_client.core.metadata import ClusterMetadata, Leader, TopicLeaders

ONE, TWO = (topic_id_text(uuid4().bytes) for _ in range(2))
UNKNOWN = {"orders": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}


def seen(**topics: tuple[str, int]) -> ClusterMetadata:
    """Returns metadata with ids and numbers of partitions by name."""
    made = {
        name: TopicLeaders(name, topic_id, {index: Leader(0, 0) for index in range(partitions)})
        for name, (topic_id, partitions) in topics.items()
    }
    return ClusterMetadata("kafka-1", topics=made)


def catalog_of(*topics: Topic, deleted: tuple[str, ...] = ()) -> TopicCatalog:
    catalog = TopicCatalog()
    for position, topic_id in enumerate(deleted, 1):
        catalog.apply(TopicDeletedRecord(topic_id), position)
    for position, topic in enumerate(topics, len(deleted) + 1):
        catalog.apply(TopicRecord(topic), position)
    return catalog


def orders(topic_id: str = ONE, partitions: int = 3, *, upstream: bool = True) -> Topic:
    return Topic(topic_id, "orders", partitions, upstream=upstream)


def test_new_topics_are_followed_by_name_and_pattern() -> None:
    found = seen(orders=(ONE, 3), other=(TWO, 1), __consumer_offsets=(TWO, 50), order=(TWO, 0))
    every = FollowedTopics(".*").commands(catalog_of(), found, 0.0)
    assert every == [FollowTopic("orders", ONE, 3), FollowTopic("other", TWO, 1)]
    some = FollowedTopics("order|orders").commands(catalog_of(), found, 0.0)
    assert some == [FollowTopic("orders", ONE, 3)]


def test_a_followed_topic_need_not_match_the_pattern() -> None:
    found = seen(orders=(ONE, 4))
    assert FollowedTopics("x").commands(catalog_of(orders()), found, 0.0) == [FollowTopic("orders", ONE, 4)]


def test_equal_and_older_metadata_changes_nothing() -> None:
    topics = FollowedTopics(".*")
    assert topics.commands(catalog_of(orders()), seen(orders=(ONE, 3)), 0.0) == []
    assert topics.commands(catalog_of(orders()), seen(orders=(ONE, 2)), 0.0) == []
    recreated = catalog_of(orders(TWO), deleted=(ONE,))
    assert topics.commands(recreated, seen(orders=(ONE, 9)), 0.0) == []


def test_a_recreated_topic_is_another_one() -> None:
    found = FollowedTopics(".*").commands(catalog_of(orders()), seen(orders=(TWO, 1)), 0.0)
    assert found == [FollowTopic("orders", TWO, 1)]


def test_topics_without_ids_get_stable_ones() -> None:
    topics = FollowedTopics(".*")
    (followed,) = topics.commands(catalog_of(), seen(orders=("", 3)), 0.0)
    assert isinstance(followed, FollowTopic)
    assert is_own_id(followed.topic_id)
    assert topics.commands(catalog_of(), seen(orders=("", 3)), 0.0) == [followed]
    known = catalog_of(orders(followed.topic_id))
    assert topics.commands(known, seen(orders=("", 3)), 0.0) == []
    assert topics.commands(known, seen(orders=(ONE, 3)), 0.0) == []  # the cluster has ids since an upgrade
    (again,) = topics.commands(catalog_of(deleted=(followed.topic_id,)), seen(orders=("", 3)), 0.0)
    assert isinstance(again, FollowTopic)
    assert again.topic_id not in (followed.topic_id, ONE)


def test_stable_ids_differ_by_cluster_and_name() -> None:
    catalog = catalog_of()
    pairs = [(cluster, name) for cluster in ("a", "b") for name in ("x", "y")]
    ids = {own_id(catalog, cluster, name) for cluster, name in pairs}
    assert len(ids) == len(pairs)
    names = [own_id(catalog, "a", f"topic-{n}") for n in range(500)]
    assert not any(text.startswith("-") for text in names)


def test_topics_that_are_not_listed_are_requested_by_name() -> None:
    catalog = catalog_of(orders(), Topic(TWO, "dlq.own", 1))
    topics = FollowedTopics(".*")
    assert topics.unlisted(catalog, seen()) == ["orders"]
    assert topics.unlisted(catalog, seen(orders=(ONE, 3))) == []
    assert topics.unlisted(catalog, ClusterMetadata(errors=UNKNOWN)) == []


def test_a_topic_is_deleted_after_the_grace() -> None:
    topics, catalog = FollowedTopics(".*"), catalog_of(orders())
    gone = ClusterMetadata("kafka-1", errors=UNKNOWN)
    assert topics.commands(catalog, gone, 100.0) == []
    assert topics.commands(catalog, gone, 100.0 + GRACE) == []  # the second look
    assert topics.commands(catalog, gone, 101.0 + GRACE) == [ForgetTopic(ONE)]


def test_many_looks_do_not_shorten_the_grace() -> None:
    topics, catalog = FollowedTopics(".*"), catalog_of(orders())
    gone = ClusterMetadata("kafka-1", errors=UNKNOWN)
    looks = [topics.commands(catalog, gone, float(second)) for second in range(int(GRACE))]
    assert len(looks) > LOOKS
    assert not any(looks)


@pytest.mark.parametrize(
    "between",
    [
        seen(orders=(ONE, 3)),
        ClusterMetadata(errors={"orders": int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}),
        ClusterMetadata(errors={"orders": int(ErrorCode.LEADER_NOT_AVAILABLE)}),
    ],
)
def test_only_absence_in_a_row_counts(between: ClusterMetadata) -> None:
    topics, catalog = FollowedTopics(".*"), catalog_of(orders())
    gone = ClusterMetadata("kafka-1", errors=UNKNOWN)
    for now in (0.0, 1.0):
        topics.commands(catalog, gone, now)
    topics.commands(catalog, between, 2.0)
    for now in (GRACE, GRACE + 1, 2 * GRACE - 1):
        assert topics.commands(catalog, gone, now) == []
    assert topics.commands(catalog, gone, 2 * GRACE) == [ForgetTopic(ONE)]


def test_own_topics_are_not_deleted() -> None:
    topics, catalog = FollowedTopics(".*"), catalog_of(orders(upstream=False))
    gone = ClusterMetadata("kafka-1", errors=UNKNOWN)
    assert [topics.commands(catalog, gone, now * GRACE) for now in range(5)] == [[]] * 5
