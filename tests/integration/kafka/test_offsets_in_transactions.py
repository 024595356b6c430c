"""AddOffsetsToTxn and TxnOffsetCommit as raw requests, each in every supported version."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.catalog.topics import OFFSETS_TOPIC
from sharebroker_server.coordinator_runtime.host import shard_of
from tests.integration.kafka.harness import Harness
from tests.integration.kafka.producers import Writer, writer
from tests.integration.kafka.test_consumer_group_messages import joined
from tests.integration.kafka.test_offsets_topic import records_of
from tests.support.client import unique
from tests.support.kafka_client import KafkaClient, part
from tests.testkit.waiting import eventually

ADD, COMMIT, FETCH, DESCRIBE, DELETE_GROUPS, LIST = 25, 28, 9, 65, 42, 16
FINE = ErrorCode.NONE
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
EXPLICIT, IMPLICIT, BY_ID = 4, 5, 6
"""Versions of TxnOffsetCommit: the group is added to the transaction before, or by its offsets; topics have
ids."""

UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


async def add(one: Writer, group: str, version: int = 4) -> ErrorCode:
    number, epoch = one.producer
    response = await one.kafka.ask(
        ADD, version, transactional_id=one.name, producer_id=number, producer_epoch=epoch, group_id=group
    )
    return ErrorCode(response.error_code)


async def commit(
    one: Writer, group: str, offset: int, version: int = IMPLICIT, *, topic: str | None = None, **member: Any
) -> ErrorCode:
    asked = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "why"}
    row = part(COMMIT, "TxnOffsetCommitRequestPartition", **asked)
    if version >= BY_ID:
        named = {"topic_id": one.topic_id if topic is None else topic}
    else:
        named = {"name": topic or one.topic}
    topics = [part(COMMIT, "TxnOffsetCommitRequestTopic", partitions=[row], **named)]
    number, epoch = one.producer
    response = await one.kafka.ask(
        COMMIT,
        version,
        transactional_id=one.name,
        group_id=group,
        producer_id=number,
        producer_epoch=epoch,
        topics=topics,
        **member,
    )
    [outcome] = response.topics[0].partitions
    return ErrorCode(outcome.error_code)


async def fetch(one: Writer, group: str, version: int = 9, *, everything: bool = False) -> Any:
    """Returns error and offset of each row; requests stable offsets where the version can."""
    stable = {"require_stable": True} if version >= 7 else {}
    if version >= 8:
        topics = [part(FETCH, "OffsetFetchRequestTopics", name=one.topic, partition_indexes=[0])]
        named = part(FETCH, "OffsetFetchRequestGroup", group_id=group, topics=None if everything else topics)
        response = (await one.kafka.ask(FETCH, version, groups=[named], **stable)).groups[0]
    else:
        topics = [part(FETCH, "OffsetFetchRequestTopic", name=one.topic, partition_indexes=[0])]
        response = await one.kafka.ask(FETCH, version, group_id=group, topics=topics, **stable)
    assert response.error_code == 0
    rows = [row for topic in response.topics for row in topic.partitions]
    return [(ErrorCode(row.error_code), row.committed_offset) for row in rows]


async def settled(one: Writer, group: str, offset: int) -> None:
    """Waits until the marker has reached the group."""

    async def has_come() -> bool:
        return bool(await fetch(one, group) == [(FINE, offset)])

    await eventually(has_come)


@pytest.mark.parametrize("version", range(5))
async def test_add_offsets_in_every_version(harness: Harness, kafka: KafkaClient, version: int) -> None:
    one = await writer(harness, kafka)
    group = unique("group")
    assert await add(one, group, version) is FINE
    response = await kafka.ask(DESCRIBE, 0, transactional_ids=[one.name])
    [shown] = response.transaction_states
    assert shown.transaction_state == "Ongoing"
    assert [(topic.topic, list(topic.partitions)) for topic in shown.topics] == [
        (OFFSETS_TOPIC, [shard_of(group, 50)])
    ]
    assert await commit(one, group, 7, EXPLICIT) is FINE
    assert await one.end(commit=True, version=3) is FINE
    await settled(one, group, 7)


@pytest.mark.parametrize("version", range(7))
async def test_commit_in_every_version(harness: Harness, kafka: KafkaClient, version: int) -> None:
    one = await writer(harness, kafka)
    group = unique("group")
    if version < IMPLICIT:
        before = ErrorCode.INVALID_TXN_STATE if version < 4 else ErrorCode.TRANSACTION_ABORTABLE
        assert await commit(one, group, 7, version) is before
        assert await add(one, group) is FINE
    assert await commit(one, group, 7, version) is FINE
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= BY_ID else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for topic in (UNKNOWN_ID, "") if version >= BY_ID else ("nothing",):
        assert await commit(one, group, 7, version, topic=topic) is unknown
    assert await fetch(one, group) == [(UNSTABLE, -1)]
    assert await one.end(commit=True, version=5 if version >= IMPLICIT else 3) is FINE
    await settled(one, group, 7)


@pytest.mark.parametrize("version", range(1, 10))
async def test_fetch_in_every_version(harness: Harness, kafka: KafkaClient, version: int) -> None:
    one = await writer(harness, kafka)
    group = unique("group")
    assert await commit(one, group, 5) is FINE
    before = (UNSTABLE, -1) if version >= 7 else (FINE, -1)
    assert await fetch(one, group, version) == [before]
    if version >= 8:
        assert await fetch(one, group, version, everything=True) == []
    assert await one.end(commit=True) is FINE
    await settled(one, group, 5)
    assert await fetch(one, group, version) == [(FINE, 5)]
    assert await commit(one, group, 6) is FINE
    assert await fetch(one, group, version) == [(UNSTABLE, -1) if version >= 7 else (FINE, 5)]
    if version >= 8:
        assert await fetch(one, group, version, everything=True) == [(UNSTABLE, -1)]
    assert await one.end(commit=False) is FINE
    await settled(one, group, 5)


async def test_fenced_producer_cannot_commit_offsets(harness: Harness, kafka: KafkaClient) -> None:
    one = await writer(harness, kafka)
    group = unique("group")
    assert await commit(one, group, 5) is FINE
    zombie = one.producer
    assert await one.init() is FINE  # which aborts the transaction
    one.producer, heir = zombie, one.producer
    before, since = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED
    assert [await add(one, group, version) for version in range(5)] == [before] * 2 + [since] * 3
    assert await commit(one, group, 6) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await commit(one, group, 6, EXPLICIT) is ErrorCode.INVALID_PRODUCER_EPOCH
    one.producer = heir
    await settled(one, group, -1)


async def test_only_members_of_the_generation_commit_offsets(harness: Harness, kafka: KafkaClient) -> None:
    one = await writer(harness, kafka)
    group = unique("group")
    place = await joined(kafka, group, 9)
    member = {"member_id": place.member_id, "generation_id": place.generation_id}
    assert await commit(one, group, 5, **member) is FINE
    late = {**member, "generation_id": place.generation_id + 1}
    assert await commit(one, group, 5, **late) is ErrorCode.ILLEGAL_GENERATION
    stranger = {**member, "member_id": "absent"}
    assert await commit(one, group, 5, **stranger) is ErrorCode.UNKNOWN_MEMBER_ID
    fixed = {**member, "group_instance_id": "fixed"}
    assert await commit(one, group, 5, **fixed) is ErrorCode.UNKNOWN_MEMBER_ID


async def test_invalid_requests_are_rejected(harness: Harness, kafka: KafkaClient) -> None:
    one = await writer(harness, kafka)
    group = unique("group")
    assert await add(one, "") is ErrorCode.INVALID_GROUP_ID
    assert await commit(one, "", 5) is ErrorCode.INVALID_GROUP_ID
    stranger = Writer(kafka, one.topic, one.topic_id, unique("stranger"), (10**9, 0))
    assert await add(stranger, group) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await commit(stranger, group, 5) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    stranger.name = ""
    assert await add(stranger, group) is ErrorCode.INVALID_REQUEST
    assert await commit(stranger, group, 5) is ErrorCode.INVALID_REQUEST


async def test_deleted_group_has_no_pending_offsets(harness: Harness, kafka: KafkaClient) -> None:
    one = await writer(harness, kafka)
    group = unique("group")
    assert await commit(one, group, 5) is FINE
    listed = (await kafka.ask(LIST, 4)).groups
    assert group in {found.group_id for found in listed}
    response = await kafka.ask(DELETE_GROUPS, 2, groups_names=[group])
    assert [result.error_code for result in response.results] == [0]
    assert await one.end(commit=True) is FINE
    assert await one.init() is FINE  # which waits until every marker is written
    assert await fetch(one, group) == [(FINE, -1)]


async def test_offsets_topic_has_committed_and_no_aborted_offsets(
    harness: Harness, kafka: KafkaClient
) -> None:
    one = await writer(harness, kafka)
    group = unique("group")
    for offset, commits in ((5, True), (6, False), (7, True)):
        assert await commit(one, group, offset) is FINE
        assert await one.end(commit=commits) is FINE
        await settled(one, group, offset if commits else 5)
    records = await records_of(kafka, group)
    assert [record.commit and record.commit.offset for record in records] == [5, 7]
