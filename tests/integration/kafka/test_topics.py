"""Topics by Kafka's own requests, old versions and new: create, alter, describe, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from tests.integration.kafka.harness import Harness
from tests.support.client import unique
from tests.support.kafka_client import KafkaClient, part

CREATE, DELETE, GROW, METADATA, CLUSTER, DESCRIBE, FEATURES = 19, 20, 37, 3, 60, 75, 57
ALL_OF_A_TOPIC = 0b1101_1111_1000
ALL_OF_A_CLUSTER = 0b1_1111_1010_0000


def topic(name: str, **fields: Any) -> Any:
    given = {"num_partitions": 1, "replication_factor": 1, **fields}
    configs = [
        part(CREATE, "CreatableTopicConfig", name=key, value=value)
        for key, value in given.pop("configs", {}).items()
    ]
    assignments = [
        part(CREATE, "CreatableReplicaAssignment", partition_index=index, broker_ids=brokers)
        for index, brokers in given.pop("assignments", {}).items()
    ]
    return part(CREATE, "CreatableTopic", name=name, configs=configs, assignments=assignments, **given)


async def create(kafka: KafkaClient, *topics: Any, version: int = 7, **fields: Any) -> list[Any]:
    response = await kafka.ask(CREATE, version, topics=topics, timeout_ms=20_000, **fields)
    return list(response.topics)


async def describe(kafka: KafkaClient, *names: str, **fields: Any) -> Any:
    asked = [part(DESCRIBE, "TopicRequest", name=name) for name in names]
    return await kafka.ask(DESCRIBE, 0, topics=asked, **fields)


async def brokers(kafka: KafkaClient) -> list[int]:
    return [broker.node_id for broker in (await kafka.ask(METADATA, 13, topics=[])).brokers]


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6, 7])
async def test_create_in_every_version(kafka: KafkaClient, version: int) -> None:
    name = unique("topic")
    (made,) = await create(
        kafka, topic(name, num_partitions=3, configs={"retention.ms": "9000"}), version=version
    )
    assert (made.name, made.error_code, made.error_message) == (name, 0, None)
    (shown,) = (await describe(kafka, name)).topics
    assert (shown.error_code, len(shown.partitions)) == (0, 3)
    if version >= 5:
        assert (made.num_partitions, made.replication_factor) == (3, 1)
        values = {config.name: (config.value, config.config_source) for config in made.configs}
        assert values["retention.ms"] == ("9000", 1)
        assert values["segment.bytes"] == ("1073741824", 5)
    if version >= 7:
        assert made.topic_id == shown.topic_id


async def test_topics_are_created_with_the_brokers_defaults(kafka: KafkaClient) -> None:
    (made,) = await create(kafka, topic(unique("topic"), num_partitions=-1, replication_factor=-1))
    assert (made.error_code, made.num_partitions) == (0, 1)


async def test_assignments_are_checked_and_count_partitions(kafka: KafkaClient) -> None:
    (node, *_) = await brokers(kafka)
    given = {"num_partitions": -1, "replication_factor": -1}
    (made,) = await create(kafka, topic(unique("topic"), assignments={0: [node], 1: [node]}, **given))
    assert (made.error_code, made.num_partitions) == (0, 2)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"num_partitions": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"num_partitions": 10_001}, ErrorCode.INVALID_PARTITIONS),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 99}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"assignments": {0: [1]}}, ErrorCode.INVALID_REQUEST),
        ({"configs": {"nonsense": "1"}}, ErrorCode.INVALID_CONFIG),
        ({"configs": {"retention.ms": "soon"}}, ErrorCode.INVALID_CONFIG),
        ({"configs": {"retention.ms": None}}, ErrorCode.INVALID_CONFIG),
    ],
    ids=str,
)
async def test_rejected_topics_do_not_affect_others(
    kafka: KafkaClient, fields: dict[str, Any], code: ErrorCode
) -> None:
    good, bad = unique("good"), unique("bad")
    rejected, made = await create(kafka, topic(bad, **fields), topic(good))
    assert (rejected.error_code, made.error_code) == (code, 0)
    assert rejected.error_message
    shown = (await describe(kafka, bad, good)).topics
    assert [one.error_code for one in shown] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]


@pytest.mark.parametrize(
    "assignments", [{0: []}, {0: [-5]}, {0: ["me", "me"]}, {1: ["me"]}, {0: ["me"], 2: ["me"]}], ids=str
)
async def test_invalid_assignments_are_rejected(
    kafka: KafkaClient, assignments: dict[int, Sequence[Any]]
) -> None:
    (node, *_) = await brokers(kafka)
    known = {index: [node if one == "me" else one for one in some] for index, some in assignments.items()}
    given = {"num_partitions": -1, "replication_factor": -1}
    (rejected,) = await create(kafka, topic(unique("topic"), assignments=known, **given))
    assert rejected.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize("name", ["", ".", "not legal", "x" * 250])
async def test_illegal_names_are_rejected(kafka: KafkaClient, name: str) -> None:
    (rejected,) = await create(kafka, topic(name))
    assert rejected.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_existing_and_duplicate_topics_are_rejected(kafka: KafkaClient) -> None:
    name, twice = unique("topic"), unique("twice")
    assert [one.error_code for one in await create(kafka, topic(name))] == [0]
    assert [one.error_code for one in await create(kafka, topic(name), topic(twice), topic(twice))] == [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    (internal,) = await create(kafka, topic("__share_group_state"))
    assert internal.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


async def test_validate_only_creates_nothing(kafka: KafkaClient) -> None:
    name = unique("topic")
    (made,) = await create(kafka, topic(name, num_partitions=5), validate_only=True)
    assert (made.error_code, made.num_partitions) == (0, 5)
    (shown,) = (await describe(kafka, name)).topics
    assert shown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_topic_is_created_despite_a_zero_timeout(kafka: KafkaClient) -> None:
    response = await kafka.ask(CREATE, 4, topics=[topic(unique("topic"))], timeout_ms=0)
    assert [one.error_code for one in response.topics] == [0]


@pytest.mark.parametrize("version", [1, 3, 4, 5])
async def test_topic_is_deleted_by_name(kafka: KafkaClient, version: int) -> None:
    name, missing = unique("topic"), unique("missing")
    await create(kafka, topic(name))
    response = await kafka.ask(DELETE, version, topic_names=[name, missing], timeout_ms=20_000)
    assert [(one.name, one.error_code) for one in response.responses] == [
        (name, 0),
        (missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    (shown,) = (await describe(kafka, name)).topics
    assert shown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_topic_is_deleted_by_id(kafka: KafkaClient) -> None:
    (made,) = await create(kafka, topic(unique("topic")))
    (kept,) = await create(kafka, topic(unique("kept")))

    def named(name: str | None, topic_id: str) -> Any:
        return part(DELETE, "DeleteTopicState", name=name, topic_id=topic_id)

    asked = [
        named(None, made.topic_id),
        named(None, "AAAAAAAAAAAAAAAAAAAAAQ"),
        named(kept.name, kept.topic_id),
        named(None, ""),
        named("__share_group_state", ""),
    ]
    response = await kafka.ask(DELETE, 6, topics=asked, timeout_ms=20_000)
    assert [(one.name, one.topic_id, one.error_code) for one in response.responses] == [
        (made.name, made.topic_id, 0),
        (None, "AAAAAAAAAAAAAAAAAAAAAQ", ErrorCode.UNKNOWN_TOPIC_ID),
        (None, kept.topic_id, ErrorCode.INVALID_REQUEST),
        ("", "", ErrorCode.INVALID_REQUEST),
        ("__share_group_state", "", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    twice = await kafka.ask(DELETE, 6, topics=[named(kept.name, "")] * 2, timeout_ms=20_000)
    assert {one.error_message for one in twice.responses} == {f"Duplicate topic: {kept.name}."}
    gone = part(METADATA, "MetadataRequestTopic", name=None, topic_id=made.topic_id)
    (shown,) = (await kafka.ask(METADATA, 12, topics=[gone])).topics
    assert (shown.error_code, shown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, made.topic_id)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_partitions_are_added(kafka: KafkaClient, version: int) -> None:
    name = unique("topic")
    (made,) = await create(kafka, topic(name))

    def grow(name: str, count: int, *assignments: Sequence[int]) -> Any:
        given = [part(GROW, "CreatePartitionsAssignment", broker_ids=one) for one in assignments] or None
        return part(GROW, "CreatePartitionsTopic", name=name, count=count, assignments=given)

    async def outcome(asked: Any, *, validate_only: bool = False) -> Any:
        response = await kafka.ask(
            GROW, version, topics=[asked], timeout_ms=20_000, validate_only=validate_only
        )
        (one,) = response.results
        assert (one.name, bool(one.error_message)) == (asked.name, bool(one.error_code))
        return one.error_code

    (node, *_) = await brokers(kafka)
    assert await outcome(grow(name, 2), validate_only=True) == 0
    assert await outcome(grow(name, 2)) == 0
    assert await outcome(grow(name, 2)) == ErrorCode.INVALID_PARTITIONS
    assert await outcome(grow(name, 1)) == ErrorCode.INVALID_PARTITIONS
    assert await outcome(grow(name, 4, [node])) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert await outcome(grow(name, 3, [-5])) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert await outcome(grow(name, 3, [node])) == 0
    assert await outcome(grow(unique("missing"), 3)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (shown,) = (await describe(kafka, name)).topics
    assert (shown.topic_id, len(shown.partitions)) == (made.topic_id, 3)


async def test_topics_are_described_in_pages(kafka: KafkaClient) -> None:
    first, second = sorted([unique("page"), unique("page")])
    await create(kafka, topic(first, num_partitions=3), topic(second, num_partitions=2))
    missing = unique("page-missing")
    seen, cursor = [], None
    for _ in range(10):
        page = await describe(kafka, second, first, missing, response_partition_limit=2, cursor=cursor)
        seen += [
            (one.name, one.error_code, [part.partition_index for part in one.partitions])
            for one in page.topics
        ]
        cursor = page.next_cursor and part(DESCRIBE, "Cursor", **vars(page.next_cursor))
        if cursor is None:
            break
    assert [one for one in seen if one[0] != missing] == [
        (first, 0, [0, 1]),
        (first, 0, [2]),
        (second, 0, [0]),
        (second, 0, [1]),
    ]
    assert (missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []) in seen


async def test_all_topics_are_described_in_order(kafka: KafkaClient) -> None:
    name = unique("topic")
    (made,) = await create(kafka, topic(name))
    shown = (await describe(kafka)).topics
    names = [one.name for one in shown]
    assert names == sorted(names)
    (own,) = (one for one in shown if one.name == name)
    (leader,) = own.partitions
    assert (own.topic_id, own.is_internal, own.topic_authorized_operations) == (
        made.topic_id,
        False,
        ALL_OF_A_TOPIC,
    )
    assert leader.leader_id in await brokers(kafka)
    assert leader.replica_nodes == leader.isr_nodes == [leader.leader_id]
    internal = [one.name for one in shown if one.is_internal]
    assert internal == ["__consumer_offsets", "__share_group_state"]


@pytest.mark.parametrize("version", range(14))
async def test_metadata_in_every_version(kafka: KafkaClient, version: int) -> None:
    name = unique("topic")
    (made,) = await create(kafka, topic(name, num_partitions=2))
    missing = unique("missing")
    asked = [part(METADATA, "MetadataRequestTopic", name=one) for one in (name, missing)]
    with_rights = {
        "include_topic_authorized_operations": version >= 8,
        "include_cluster_authorized_operations": 8 <= version <= 10,
    }
    response = await kafka.ask(METADATA, version, topics=asked, **with_rights)
    shown, unknown = response.topics
    assert (shown.error_code, shown.name, len(shown.partitions)) == (0, name, 2)
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, missing)
    nodes = {broker.node_id for broker in response.brokers}
    assert {one.leader_id for one in shown.partitions} <= nodes
    if version >= 1:
        assert response.controller_id in nodes
    if version >= 2:
        assert response.cluster_id
    if version >= 8:
        assert shown.topic_authorized_operations == ALL_OF_A_TOPIC
    if 8 <= version <= 10:
        assert response.cluster_authorized_operations == ALL_OF_A_CLUSTER
    if version >= 10:
        assert shown.topic_id == made.topic_id


@pytest.mark.parametrize(("version", "everything"), [(0, []), (1, None), (13, None)])
async def test_metadata_lists_all_topics(
    kafka: KafkaClient, version: int, everything: list[Any] | None
) -> None:
    name = unique("topic")
    await create(kafka, topic(name))
    response = await kafka.ask(METADATA, version, topics=everything)
    assert name in [one.name for one in response.topics]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_cluster_is_described(kafka: KafkaClient, version: int) -> None:
    metadata = await kafka.ask(METADATA, 10, topics=[])
    response = await kafka.ask(CLUSTER, version, include_cluster_authorized_operations=True)
    assert (response.error_code, response.cluster_id) == (0, metadata.cluster_id)
    assert response.controller_id == metadata.controller_id
    assert [(one.broker_id, one.host, one.port) for one in response.brokers] == [
        (one.node_id, one.host, one.port) for one in metadata.brokers
    ]
    assert response.cluster_authorized_operations == ALL_OF_A_CLUSTER
    plain = await kafka.ask(CLUSTER, version)
    assert plain.cluster_authorized_operations == -(2**31)
    if version >= 1:
        rejected = [await kafka.ask(CLUSTER, version, endpoint_type=kind) for kind in (2, 3)]
        assert [one.error_code for one in rejected] == [
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        ]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_invalid_feature_levels_fail_all_updates(kafka: KafkaClient, version: int) -> None:
    async def update(**levels: int) -> Any:
        asked = [
            part(FEATURES, "FeatureUpdateKey", feature=name.replace("_", "."), max_version_level=level)
            for name, level in levels.items()
        ]
        return await kafka.ask(FEATURES, version, feature_updates=asked)

    fine = await update(share_version=2, transaction_version=2)
    assert fine.error_code == 0
    for levels in ({"share_version": 0}, {"share_version": 9}, {"nonsense_version": 1}):
        rejected = await update(transaction_version=2, **levels)
        assert rejected.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert not rejected.results


async def test_topics_created_by_kafka_clients_exist_over_grpc(harness: Harness, kafka: KafkaClient) -> None:
    name = unique("topic")
    await create(kafka, topic(name))
    await harness.client.publish(name, ["hello"])
