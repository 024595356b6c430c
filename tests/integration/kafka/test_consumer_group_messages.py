"""The messages of consumer groups, each in every supported version."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from tests.integration.kafka.harness import Harness
from tests.support.client import TIMEOUT, unique
from tests.support.kafka_client import KafkaClient, part
from tests.testkit.waiting import eventually

COMMIT, FETCH, JOIN, BEAT, LEAVE, SYNC, DESCRIBE, LIST, DELETE, DELETE_OFFSETS = (
    8,
    9,
    11,
    12,
    13,
    14,
    15,
    16,
    42,
    47,
)
CONSUMER_GROUP_HEARTBEAT = 68
ALL_OF_A_GROUP, NOT_ASKED = 0b1101_0100_1000, -(1 << 31)
LONG = 3 * TIMEOUT
"""Seconds; on a busy machine a rebalance takes long."""


def joining(group: str, member: str = "", **more: Any) -> dict[str, Any]:
    """Returns the fields of a JoinGroup."""
    protocol = part(JOIN, "JoinGroupRequestProtocol", name="range", metadata=b"what I am")
    fields = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "consumer"}
    return {"group_id": group, "member_id": member, "protocols": [protocol], **fields, **more}


async def joined(kafka: KafkaClient, group: str, version: int) -> Any:
    """Returns a member that joined, after as many requests as that takes."""
    response = await kafka.ask(JOIN, version, **joining(group))
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        response = await kafka.ask(JOIN, version, **joining(group, response.member_id))
    assert response.error_code == 0
    return response


@pytest.mark.parametrize("version", range(10))
async def test_join_in_every_version(kafka: KafkaClient, version: int) -> None:
    group = unique("consumers")
    rejected = await kafka.ask(JOIN, version, **joining(group, "absent"))
    assert rejected.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert rejected.protocol_name == (None if version >= 7 else "")
    first = await kafka.ask(JOIN, version, **joining(group))
    assert first.error_code == (ErrorCode.MEMBER_ID_REQUIRED if version >= 4 else 0)
    assert first.member_id.startswith("test-")
    place = await joined(kafka, group, version) if version >= 4 else first
    assert place.generation_id >= 1
    assert (place.leader, place.protocol_name) == (place.member_id, "range")
    assert place.protocol_type == ("consumer" if version >= 7 else None)
    [member] = place.members
    assert (member.member_id, bytes(member.metadata)) == (place.member_id, b"what I am")


@pytest.mark.parametrize("version", range(6))
async def test_sync_in_every_version(kafka: KafkaClient, version: int) -> None:
    group = unique("consumers")
    place = await joined(kafka, group, 9)
    part_of_it = part(SYNC, "SyncGroupRequestAssignment", member_id=place.member_id, assignment=b"mine")
    agreed = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    of = {"group_id": group, "generation_id": place.generation_id, "member_id": place.member_id, **agreed}
    response = await kafka.ask(SYNC, version, **of, assignments=[part_of_it])
    assert (response.error_code, bytes(response.assignment)) == (0, b"mine")
    wrong = await kafka.ask(SYNC, version, **{**of, "generation_id": 77}, assignments=[])
    assert wrong.error_code == ErrorCode.ILLEGAL_GENERATION
    if version >= 5:
        untold = await kafka.ask(SYNC, version, **{**of, "protocol_name": None}, assignments=[])
        assert untold.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(5))
async def test_heartbeats_in_every_version(kafka: KafkaClient, version: int) -> None:
    group = unique("consumers")
    place = await joined(kafka, group, 9)
    of = {"group_id": group, "generation_id": place.generation_id}
    assert (await kafka.ask(BEAT, version, **of, member_id=place.member_id)).error_code == 0
    unknown = await kafka.ask(BEAT, version, **of, member_id="absent")
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    none = await kafka.ask(BEAT, version, group_id="", generation_id=1, member_id="absent")
    assert none.error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("version", range(6))
async def test_leave_in_every_version(kafka: KafkaClient, version: int) -> None:
    group = unique("consumers")
    place = await joined(kafka, group, 9)

    async def leave(member: str) -> int:
        if version < 3:
            return int((await kafka.ask(LEAVE, version, group_id=group, member_id=member)).error_code)
        named = part(LEAVE, "MemberIdentity", member_id=member)
        [outcome] = (await kafka.ask(LEAVE, version, group_id=group, members=[named])).members
        return int(outcome.error_code)

    assert await leave("absent") == ErrorCode.UNKNOWN_MEMBER_ID
    assert await leave(place.member_id) == 0
    group = unique("nothing")
    assert await leave(place.member_id) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(2, 11))
async def test_commit_in_every_version(harness: Harness, kafka: KafkaClient, version: int) -> None:
    topic, topic_id = await harness.client.create()
    group = unique("consumers")
    rows = [
        part(
            COMMIT,
            "OffsetCommitRequestPartition",
            partition_index=number,
            committed_offset=7,
            committed_metadata=text,
        )
        for number, text in ((0, "why"), (5, None))
    ]
    named = {"topic_id": topic_id} if version >= 10 else {"name": topic}
    of_topic = part(COMMIT, "OffsetCommitRequestTopic", partitions=rows, **named)
    response = await kafka.ask(COMMIT, version, group_id=group, member_id="", topics=[of_topic])
    [outcome] = response.topics
    assert [one.error_code for one in outcome.partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    asked = part(FETCH, "OffsetFetchRequestTopic", name=topic, partition_indexes=[0])
    [found] = (await kafka.ask(FETCH, 7, group_id=group, topics=[asked])).topics
    assert [(one.committed_offset, one.metadata) for one in found.partitions] == [(7, "why")]


async def test_member_of_another_generation_cannot_commit(harness: Harness, kafka: KafkaClient) -> None:
    topic, _ = await harness.client.create()
    group = unique("consumers")
    place = await joined(kafka, group, 9)
    row = part(COMMIT, "OffsetCommitRequestPartition", partition_index=0, committed_offset=7)
    of_topic = part(COMMIT, "OffsetCommitRequestTopic", name=topic, partitions=[row])
    identity = {"generation_id_or_member_epoch": place.generation_id + 1, "member_id": place.member_id}
    [outcome] = (await kafka.ask(COMMIT, 8, group_id=group, topics=[of_topic], **identity)).topics
    assert outcome.partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", range(1, 11))
async def test_fetch_without_commits_returns_no_offset(kafka: KafkaClient, version: int) -> None:
    if version < 8:
        topic = part(FETCH, "OffsetFetchRequestTopic", name="any", partition_indexes=[0, 7])
        found = await kafka.ask(FETCH, version, group_id="any", topics=[topic])
    else:
        name = {"name": "any"} if version < 10 else {}
        topic = part(FETCH, "OffsetFetchRequestTopics", partition_indexes=[0, 7], **name)
        group = part(FETCH, "OffsetFetchRequestGroup", group_id="any", topics=[topic])
        all_of_it = part(FETCH, "OffsetFetchRequestGroup", group_id="other", topics=None)
        illegal = part(FETCH, "OffsetFetchRequestGroup", group_id="", topics=None)
        response = await kafka.ask(FETCH, version, groups=[group, all_of_it, illegal])
        found, everything, rejected = response.groups
        assert (everything.group_id, everything.topics) == ("other", [])
        assert rejected.error_code == ErrorCode.INVALID_GROUP_ID
    (given,) = found.topics
    assert found.error_code == 0
    error = ErrorCode.NONE if version < 10 else ErrorCode.UNKNOWN_TOPIC_ID  # the id is 0
    assert [(one.partition_index, one.committed_offset, one.error_code) for one in given.partitions] == [
        (0, -1, error),
        (7, -1, error),
    ]


async def test_offsets_of_an_old_request_fail_in_their_partitions(kafka: KafkaClient) -> None:
    topic = part(FETCH, "OffsetFetchRequestTopic", name="any", partition_indexes=[0])
    [found] = (await kafka.ask(FETCH, 1, group_id="", topics=[topic])).topics
    assert [one.error_code for one in found.partitions] == [ErrorCode.INVALID_GROUP_ID]


@pytest.mark.parametrize("version", range(7))
async def test_describe_in_every_version(kafka: KafkaClient, version: int) -> None:
    group = unique("consumers")
    place = await joined(kafka, group, 9)
    sync = part(SYNC, "SyncGroupRequestAssignment", member_id=place.member_id, assignment=b"mine")
    of = {"group_id": group, "generation_id": place.generation_id, "member_id": place.member_id}
    await kafka.ask(SYNC, 4, **of, assignments=[sync])
    asked = {"include_authorized_operations": True} if version >= 3 else {}
    found, none = (await kafka.ask(DESCRIBE, version, groups=[group, "none"], **asked)).groups
    assert found.authorized_operations == (ALL_OF_A_GROUP if asked else NOT_ASKED)
    assert none.authorized_operations == NOT_ASKED
    assert (found.group_state, found.protocol_type, found.protocol_data) == ("Stable", "consumer", "range")
    [member] = found.members
    assert (member.member_id, member.client_id) == (place.member_id, "test")
    assert (bytes(member.member_metadata), bytes(member.member_assignment)) == (b"what I am", b"mine")
    assert none.group_state == "Dead"
    assert none.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)


@pytest.mark.parametrize(("types", "listed"), [([], True), (["classic"], True), (["share"], False)])
async def test_groups_are_listed_with_their_type(kafka: KafkaClient, types: list[str], listed: bool) -> None:
    group = unique("consumers")
    await joined(kafka, group, 9)
    found = (await kafka.ask(LIST, 5, states_filter=[], types_filter=types)).groups
    ours = [(one.protocol_type, one.group_type) for one in found if one.group_id == group]
    assert ours == ([("consumer", "classic")] if listed else [])


async def test_a_group_with_members_is_not_deleted(harness: Harness, kafka: KafkaClient) -> None:
    topic, _ = await harness.client.create()
    group = unique("consumers")
    await joined(kafka, group, 9)
    [outcome] = (await kafka.ask(DELETE, 2, groups_names=[group])).results
    assert outcome.error_code == ErrorCode.NON_EMPTY_GROUP
    row = part(DELETE_OFFSETS, "OffsetDeleteRequestPartition", partition_index=0)
    of_topic = part(DELETE_OFFSETS, "OffsetDeleteRequestTopic", name=topic, partitions=[row])
    assert (await kafka.ask(DELETE_OFFSETS, 0, group_id=group, topics=[of_topic])).error_code == (
        ErrorCode.NON_EMPTY_GROUP
    )


async def test_delete_offsets_of_unknown_partitions_is_rejected(harness: Harness, kafka: KafkaClient) -> None:
    topic, _ = await harness.client.create()
    group = unique("consumers")
    row = part(COMMIT, "OffsetCommitRequestPartition", partition_index=0, committed_offset=7)
    of_topic = part(COMMIT, "OffsetCommitRequestTopic", name=topic, partitions=[row])
    await kafka.ask(COMMIT, 8, group_id=group, member_id="", topics=[of_topic])
    rows = [part(DELETE_OFFSETS, "OffsetDeleteRequestPartition", partition_index=number) for number in (0, 9)]
    of_topic = part(DELETE_OFFSETS, "OffsetDeleteRequestTopic", name=topic, partitions=rows)
    [found] = (await kafka.ask(DELETE_OFFSETS, 0, group_id=group, topics=[of_topic])).topics
    assert [one.error_code for one in found.partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    [gone] = (await kafka.ask(DESCRIBE, 6, groups=[group])).groups
    assert gone.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_member_that_disconnects_while_joining_delays_no_other(harness: Harness) -> None:
    group = unique("consumers")
    async with harness.connect() as one, harness.connect() as other:
        place = await joined(one, group, 3)
        other.send(JOIN, 3, **joining(group))
        of = {"group_id": group, "generation_id": place.generation_id, "member_id": place.member_id}

        async def rebalancing() -> bool:
            beat = await one.ask(BEAT, 4, **of)
            return bool(beat.error_code == ErrorCode.REBALANCE_IN_PROGRESS)

        await eventually(rebalancing, LONG)
        other.abort()
        again = await one.ask(JOIN, 3, **joining(group, place.member_id))
        assert again.error_code == 0
        assert len(again.members) == 2, "until its session times out"


@pytest.mark.parametrize("version", range(2))
async def test_heartbeats_of_the_new_protocol_are_rejected(kafka: KafkaClient, version: int) -> None:
    fields = {"group_id": "any", "member_id": "me", "member_epoch": 0}
    response = await kafka.ask(CONSUMER_GROUP_HEARTBEAT, version, **fields)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "group.protocol=classic" in response.error_message
