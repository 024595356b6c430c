"""Membership and administration of share groups on raw sockets."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from tests.integration.kafka.harness import Harness, acquire
from tests.support.client import unique
from tests.support.kafka_client import KafkaClient, part

HEARTBEAT, DESCRIBE, LIST, DESCRIBE_CLASSIC, DELETE = 76, 77, 16, 15, 42
OFFSETS, ALTER, DELETE_OFFSETS = 90, 91, 92
LATEST_DESCRIBE_CLASSIC = 6
FIND_COORDINATOR = 10
ALL_OF_A_GROUP = 0b1101_0100_1000


@pytest.fixture
def member() -> str:
    return unique("member")


def assigned(response: Any) -> dict[str, set[int]]:
    """Returns the partitions of a heartbeat's response by topic id."""
    return {topic.topic_id: set(topic.partitions) for topic in response.assignment.topic_partitions}


# Membership


async def test_member_joins_sends_heartbeats_and_leaves(
    kafka: KafkaClient, harness: Harness, member: str
) -> None:
    topic, topic_id = await harness.client.create(2)
    group = await harness.client.group()
    joined = await kafka.heartbeat(group, member, 0, subscribed_topic_names=[topic], rack_id="here")
    assert (joined.error_code, joined.member_id) == (0, member)
    assert joined.member_epoch > 0
    assert joined.heartbeat_interval_ms > 0
    assert assigned(joined) == {topic_id: {0, 1}}
    stayed = await kafka.heartbeat(group, member, joined.member_epoch)
    assert (stayed.error_code, stayed.assignment) == (0, None)

    described = await kafka.ask(DESCRIBE, 1, group_ids=[group], include_authorized_operations=True)
    (found,) = described.groups
    assert found.authorized_operations == ALL_OF_A_GROUP
    assert (found.error_code, found.group_state, found.assignor_name) == (0, "Stable", "simple")
    assert (found.group_epoch, found.assignment_epoch) == (joined.member_epoch, joined.member_epoch)
    (seen,) = found.members
    assert (seen.member_id, seen.client_id, seen.rack_id) == (member, "test", "here")
    assert seen.client_host == "/127.0.0.1"
    assert list(seen.subscribed_topic_names) == [topic]
    (of_topic,) = seen.assignment.topic_partitions
    assert (of_topic.topic_name, list(of_topic.partitions)) == (topic, [0, 1])

    left = await kafka.heartbeat(group, member, -1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    (empty,) = (await kafka.ask(DESCRIBE, 1, group_ids=[group])).groups
    assert (empty.group_state, empty.members) == ("Empty", [])
    assert empty.authorized_operations == -(1 << 31)
    back = await kafka.heartbeat(group, member, 0, subscribed_topic_names=[topic])
    assert assigned(back) == {topic_id: {0, 1}}


INVALID_HEARTBEATS: list[tuple[dict[str, Any], ErrorCode]] = [
    ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
    ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
    ({"member_id": "x" * 37}, ErrorCode.INVALID_REQUEST),
    ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
    ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
    ({"subscribed_topic_names": []}, ErrorCode.INVALID_REQUEST),
    ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
    ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
]


@pytest.mark.parametrize(("fields", "code"), INVALID_HEARTBEATS)
async def test_invalid_heartbeats_are_rejected(
    kafka: KafkaClient, fields: dict[str, Any], code: ErrorCode
) -> None:
    right = {
        "group_id": unique("group"),
        "member_id": "member",
        "member_epoch": 0,
        "subscribed_topic_names": ["nothing"],
    }
    response = await kafka.ask(HEARTBEAT, 1, **(right | fields))
    assert response.error_code == code
    assert response.error_message


async def test_unknown_members_and_wrong_epochs_are_rejected(
    kafka: KafkaClient, harness: Harness, member: str
) -> None:
    group = await harness.client.group()
    joined = await kafka.heartbeat(group, member, 0, subscribed_topic_names=["nothing-yet"])
    epoch = joined.member_epoch
    assert (await kafka.heartbeat(group, unique("other"), epoch)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await kafka.heartbeat(group, member, epoch + 7)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    again = await kafka.heartbeat(group, member, 0, subscribed_topic_names=["nothing-yet"])
    assert (again.error_code, again.member_epoch) == (0, epoch)


async def test_changed_subscription_and_later_topics_are_assigned(
    kafka: KafkaClient, harness: Harness, member: str
) -> None:
    topic, topic_id = await harness.client.create()
    group, later = await harness.client.group(), unique("later")
    joined = await kafka.heartbeat(group, member, 0, subscribed_topic_names=[later])
    assert assigned(joined) == {}
    moved = await kafka.heartbeat(group, member, joined.member_epoch, subscribed_topic_names=[topic])
    assert assigned(moved) == {topic_id: {0}}
    nothing = await kafka.heartbeat(group, member, moved.member_epoch, subscribed_topic_names=[])
    assert assigned(nothing) == {}


# Lists and descriptions


@pytest.mark.parametrize("version", range(6))
async def test_groups_are_listed(kafka: KafkaClient, harness: Harness, version: int) -> None:
    at = await harness.readable(records=0)
    listed = await kafka.ask(LIST, version)
    assert listed.error_code == 0
    (found,) = (group for group in listed.groups if group.group_id == at.group)
    assert found.protocol_type == "share"
    assert found.group_state == ("Empty" if version >= 4 else "")
    assert found.group_type == ("share" if version >= 5 else "")


async def test_lists_are_filtered_case_insensitively(kafka: KafkaClient, harness: Harness) -> None:
    at = await harness.readable(records=0)

    async def is_listed(**filters: list[str]) -> bool:
        return at.group in {group.group_id for group in (await kafka.ask(LIST, 5, **filters)).groups}

    assert await is_listed(types_filter=["Share"], states_filter=["EMPTY"])
    assert not await is_listed(types_filter=["consumer"])
    assert not await is_listed(states_filter=["Stable"])


async def test_unknown_groups_are_described_as_by_kafka(kafka: KafkaClient, harness: Harness) -> None:
    at, nothing = await harness.readable(records=0), unique("nothing")
    known, unknown, nameless = (await kafka.ask(DESCRIBE, 1, group_ids=[at.group, nothing, ""])).groups
    assert (known.error_code, known.group_id) == (0, at.group)
    assert (unknown.error_code, unknown.group_id) == (ErrorCode.GROUP_ID_NOT_FOUND, nothing)
    assert unknown.group_state == ""
    assert nameless.error_code == ErrorCode.INVALID_GROUP_ID
    for version in range(LATEST_DESCRIBE_CLASSIC + 1):
        response = await kafka.ask(DESCRIBE_CLASSIC, version, groups=[at.group, nothing])
        code = ErrorCode.GROUP_ID_NOT_FOUND if version == LATEST_DESCRIBE_CLASSIC else 0
        assert [(one.group_state, one.error_code) for one in response.groups] == [("Dead", code)] * 2
    assert [one.error_message for one in response.groups] == [
        f"Group {at.group} is not a classic group.",
        f"Group {nothing} not found.",
    ]


# Offsets


def topics_of(key: int, name: str, **partitions: Any) -> list[Any]:
    """Returns the topics of a request about offsets."""
    shape = {OFFSETS: "DescribeShareGroupOffsetsRequestTopic", ALTER: "AlterShareGroupOffsetsRequestTopic"}
    return [part(key, shape[key], topic_name=name, **partitions)]


def altered(topic: str, *offsets: tuple[int, int]) -> list[Any]:
    """Returns the topics of AlterShareGroupOffsets: partitions and their new start offsets."""
    shape = "AlterShareGroupOffsetsRequestPartition"
    parts = [part(ALTER, shape, partition_index=index, start_offset=offset) for index, offset in offsets]
    return topics_of(ALTER, topic, partitions=parts)


async def offsets(kafka: KafkaClient, group: str, topics: Any = None, version: int = 1) -> Any:
    asked = part(OFFSETS, "DescribeShareGroupOffsetsRequestGroup", group_id=group, topics=topics)
    (found,) = (await kafka.ask(OFFSETS, version, groups=[asked])).groups
    return found


async def test_start_offsets_and_lag_are_described(kafka: KafkaClient, harness: Harness, member: str) -> None:
    at = await harness.readable()
    await acquire(kafka, at, member)
    await kafka.share_acknowledge(at.group, member, 1, {(at.topic_id, 0): [(0, 3, [1])]})
    for topics in (None, topics_of(OFFSETS, at.topic, partitions=[0])):
        found = await offsets(kafka, at.group, topics)
        ((of_topic,), error) = found.topics, found.error_code
        (of_part,) = of_topic.partitions
        assert (error, of_topic.topic_name, of_topic.topic_id) == (0, at.topic, at.topic_id)
        assert (of_part.partition_index, of_part.start_offset, of_part.lag) == (0, 4, 6)
    (of_topic,) = (await offsets(kafka, at.group, version=0)).topics
    assert of_topic.partitions[0].lag == -1  # version 0 has no such field
    assert (await offsets(kafka, at.group, [])).topics == []
    unknown = await offsets(kafka, unique("nothing"))
    assert (unknown.error_code, unknown.topics) == (0, [])
    (of_topic,) = (await offsets(kafka, at.group, topics_of(OFFSETS, "nothing", partitions=[3]))).topics
    assert [(p.partition_index, p.start_offset, p.error_code) for p in of_topic.partitions] == [(3, -1, 0)]


async def test_offsets_of_an_empty_group_are_altered(
    kafka: KafkaClient, harness: Harness, member: str
) -> None:
    at = await harness.readable()
    response = await kafka.ask(ALTER, 0, group_id=at.group, topics=altered(at.topic, (0, 7), (5, 1)))
    assert response.error_code == 0
    (of_topic,) = response.responses
    assert (of_topic.topic_name, of_topic.topic_id) == (at.topic, at.topic_id)
    assert {one.partition_index: one.error_code for one in of_topic.partitions} == {
        0: 0,
        5: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert await acquire(kafka, at, member) == [(7, 9, 1)]


async def test_altering_offsets_creates_the_group(kafka: KafkaClient, harness: Harness) -> None:
    topic, _ = await harness.client.create()
    group = unique("made")
    response = await kafka.ask(ALTER, 0, group_id=group, topics=altered(topic, (0, 3)))
    assert (response.error_code, response.responses[0].partitions[0].error_code) == (0, 0)
    (found,) = (await kafka.ask(DESCRIBE, 1, group_ids=[group])).groups
    assert (found.error_code, found.group_state) == (0, "Empty")


async def test_topics_are_removed_from_a_group_and_it_is_deleted(
    kafka: KafkaClient, harness: Harness
) -> None:
    at = await harness.readable()

    async def delete_offsets(group: str, *names: str) -> Any:
        topics = [
            part(DELETE_OFFSETS, "DeleteShareGroupOffsetsRequestTopic", topic_name=name) for name in names
        ]
        return await kafka.ask(DELETE_OFFSETS, 0, group_id=group, topics=topics)

    response = await delete_offsets(at.group, at.topic, "nothing")
    assert [(one.topic_name, one.error_code) for one in response.responses] == [
        (at.topic, 0),
        ("nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert (await offsets(kafka, at.group)).topics == []
    assert (await delete_offsets(unique("nothing"), at.topic)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    for version, code in ((0, 0), (1, ErrorCode.GROUP_ID_NOT_FOUND), (2, ErrorCode.GROUP_ID_NOT_FOUND)):
        (result,) = (await kafka.ask(DELETE, version, groups_names=[at.group])).results
        assert (result.group_id, result.error_code) == (at.group, code)


async def test_group_with_members_cannot_be_altered(
    kafka: KafkaClient, harness: Harness, member: str
) -> None:
    topic, _ = await harness.client.create()
    group = await harness.client.group()
    await kafka.heartbeat(group, member, 0, subscribed_topic_names=[topic])
    moved = await kafka.ask(ALTER, 0, group_id=group, topics=altered(topic, (0, 0)))
    assert moved.error_code == ErrorCode.NON_EMPTY_GROUP
    topics = [part(DELETE_OFFSETS, "DeleteShareGroupOffsetsRequestTopic", topic_name=topic)]
    deleted = await kafka.ask(DELETE_OFFSETS, 0, group_id=group, topics=topics)
    assert (deleted.error_code, deleted.responses) == (ErrorCode.NON_EMPTY_GROUP, [])
    (deleted,) = (await kafka.ask(DELETE, 2, groups_names=[group])).results
    assert deleted.error_code == ErrorCode.NON_EMPTY_GROUP


async def test_share_coordinator_of_a_partition_is_found(kafka: KafkaClient, harness: Harness) -> None:
    """Kafka supports this since version 6, for keys of group, topic id and partition."""
    group, topic_id = "a:b", (await harness.client.create(1))[1]

    async def found(key: str, version: int = 6) -> int:
        response = await kafka.ask(FIND_COORDINATOR, version, key_type=2, coordinator_keys=[key])
        return int(response.coordinators[0].error_code)

    assert await found(f"{group}:{topic_id}:0") == 0
    for wrong in (f"{topic_id}:0", f":{topic_id}:0", f"{group}:{topic_id}:-1", f"{group}:x:0", group):
        assert await found(wrong) == ErrorCode.INVALID_REQUEST
    assert await found(f"{group}:{topic_id}:0", version=5) == ErrorCode.INVALID_REQUEST
