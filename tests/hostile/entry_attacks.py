"""Attacks with requests of Kafka's APIs that have nearly as many entries as a request may have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from uuid import uuid4

from tests.hostile import payloads
from tests.hostile.attacks import Attack, Send, crowd, exchange
from tests.hostile.payloads import METADATA, frame
from tests.support.client import connected, unique
from tests.support.kafka_client import fetch_topics, part
from tests.testkit.brokers import Cluster

LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH, OFFSET_FOR_LEADER_EPOCH = 2, 8, 9, 23
SHARE_HEARTBEAT, SHARE_FETCH, DESCRIBE_SHARE_GROUP_OFFSETS = 76, 78, 90

TOPICS: Final = tuple(f"entries-{number}" for number in range(5))
PARTITIONS: Final = range(9_000)
"""The partitions of each topic: 45,000 together."""

Request = Callable[[], bytes]


def _topics(key: int, topic: str, partition: str, index: str, name: str = "name", **fields: Any) -> list[Any]:
    """Returns all partitions of the topics, in the structs of a request."""
    return [
        part(
            key,
            topic,
            **{name: each},
            partitions=[part(key, partition, **{index: number}, **fields) for number in PARTITIONS],
        )
        for each in TOPICS
    ]


def commit() -> bytes:
    """Returns a commit of the offsets of all partitions."""
    names = ("OffsetCommitRequestTopic", "OffsetCommitRequestPartition", "partition_index")
    topics = _topics(OFFSET_COMMIT, *names, committed_offset=7, committed_metadata="")
    return frame(
        OFFSET_COMMIT, 9, group_id="entries", generation_id_or_member_epoch=-1, member_id="", topics=topics
    )


def fetch_offsets() -> bytes:
    """Returns a request for the committed offsets of all partitions."""
    indexes = [*PARTITIONS]
    topics = [
        part(OFFSET_FETCH, "OffsetFetchRequestTopics", name=name, partition_indexes=indexes)
        for name in TOPICS
    ]
    group = part(OFFSET_FETCH, "OffsetFetchRequestGroup", group_id="entries", topics=topics)
    return frame(OFFSET_FETCH, 9, groups=[group])


def fetch_all_offsets() -> bytes:
    """Returns a request for all committed offsets of the group."""
    group = part(OFFSET_FETCH, "OffsetFetchRequestGroup", group_id="entries", topics=None)
    return frame(OFFSET_FETCH, 9, groups=[group])


def list_offsets() -> bytes:
    """Returns a request for the end offsets of all partitions."""
    names = ("ListOffsetsTopic", "ListOffsetsPartition", "partition_index")
    return frame(LIST_OFFSETS, 9, topics=_topics(LIST_OFFSETS, *names, timestamp=-1), timeout_ms=30_000)


def list_duplicates() -> bytes:
    """Returns a request that names one partition 45,000 times."""
    one = part(LIST_OFFSETS, "ListOffsetsPartition", partition_index=0, timestamp=-1)
    topic = part(LIST_OFFSETS, "ListOffsetsTopic", name=TOPICS[0], partitions=[one] * 45_000)
    return frame(LIST_OFFSETS, 9, topics=[topic], timeout_ms=30_000)


def leader_epochs() -> bytes:
    """Returns a request for the ends of the leader epochs of all partitions."""
    names = ("OffsetForLeaderTopic", "OffsetForLeaderPartition", "partition", "topic")
    topics = _topics(OFFSET_FOR_LEADER_EPOCH, *names, leader_epoch=0)
    return frame(OFFSET_FOR_LEADER_EPOCH, 4, topics=topics)


def describe_share_offsets() -> bytes:
    """Returns a request for the start offsets of all partitions."""
    key, indexes = DESCRIBE_SHARE_GROUP_OFFSETS, [*PARTITIONS]
    topics = [
        part(key, "DescribeShareGroupOffsetsRequestTopic", topic_name=name, partitions=indexes)
        for name in TOPICS
    ]
    group = part(key, "DescribeShareGroupOffsetsRequestGroup", group_id="entries", topics=topics)
    return frame(key, 1, groups=[group])


def named_metadata() -> bytes:
    """Returns a Metadata request for 49,000 unknown topics."""
    names = [part(METADATA, "MetadataRequestTopic", name=f"unknown-{number}") for number in range(49_000)]
    return frame(METADATA, 12, topics=names, allow_auto_topic_creation=True)


def _attack(name: str, request: Request, before: Sequence[Request] = (), clients: int = 2) -> Attack:
    async def prepare(cluster: Cluster) -> Send:
        sizes = {topic: len(PARTITIONS) for topic in TOPICS}
        creations = [payloads.create_topics({topic: size}) for topic, size in sizes.items()]
        await exchange(cluster.kafka, [*creations, *(each() for each in before)])
        return lambda seconds: crowd(cluster.kafka, [[request()]] * clients, seconds)

    return Attack(name, prepare)


def _share_fetch_attack() -> Attack:
    """Returns an attack of a member that uses 12,000 partitions for the first time, and then again."""

    async def prepare(cluster: Cluster) -> Send:
        async with connected(cluster.address) as client:
            topics = dict([await client.create(6_000) for _ in range(2)])
        member: dict[str, Any] = {"group_id": unique("entries"), "member_id": str(uuid4())}
        join = frame(SHARE_HEARTBEAT, 1, member_epoch=0, subscribed_topic_names=[*topics], **member)
        wanted = fetch_topics({topic_id: range(6_000) for topic_id in topics.values()}, {})
        limits = {
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
        }
        fetch = frame(SHARE_FETCH, 2, share_session_epoch=0, topics=wanted, **limits, **member)
        return lambda seconds: crowd(cluster.kafka, [[join, fetch]], seconds)

    return Attack("ShareFetch of 12,000 partitions", prepare)


def entry_attacks() -> Iterator[Attack]:
    """Yields the attacks."""
    yield _attack("OffsetCommit of 45,000 partitions", commit)
    yield _attack("OffsetFetch of a group with 45,000 partitions", fetch_offsets, [commit])
    yield _attack("OffsetFetch of all offsets, 45,000 partitions", fetch_all_offsets, [commit])
    yield _attack("ListOffsets of 45,000 partitions", list_offsets)
    yield _attack("ListOffsets of a partition named 45,000 times", list_duplicates)
    yield _attack("OffsetForLeaderEpoch of 45,000 partitions", leader_epochs)
    yield _attack("DescribeShareGroupOffsets of 45,000 partitions", describe_share_offsets)
    yield _attack("Metadata of 49,000 names", named_metadata)
    yield _share_fetch_attack()
