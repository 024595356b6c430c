"""Administration of topics, groups and configs on a running server."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from sharebroker import ErrorCode, KafkaError, TopicPartition
from sharebroker.admin_model import EARLIEST
from sharebroker.aio import Admin
from tests.integration.share_consumer.harness import Harness, poll_records


@pytest.fixture
async def admin(server: str) -> AsyncIterator[Admin]:
    async with Admin(server) as admin:
        yield admin


@pytest.fixture
def name() -> str:
    return f"topic-{uuid.uuid4().hex[:12]}"


async def test_topic_is_created_altered_and_deleted(admin: Admin, name: str) -> None:
    created = await admin.create_topic(name, 2, {"retention.ms": "1000"})
    assert (created.name, created.partitions, created.configs) == (name, 2, {"retention.ms": "1000"})
    await admin.create_partitions(name, 3)
    described = await admin.describe_topic(name)
    assert (described.topic_id, described.partitions) == (created.topic_id, 3)
    assert described in await admin.list_topics()
    await admin.alter_topic_configs(name, {"retention.ms": None, "max.message.bytes": "5000"})
    own = {config.name: config.value for config in await admin.topic_configs(name) if not config.is_default}
    assert own == {"max.message.bytes": "5000"}
    await admin.delete_topic(name)
    with pytest.raises(KafkaError) as caught:
        await admin.describe_topic(name)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_offsets_of_a_log_follow_appends_and_deletions(server: str) -> None:
    async with Harness(server) as harness:
        admin, place = harness.admin, TopicPartition(harness.topic, 0)
        await harness.produce(3)
        assert await admin.list_offsets([place]) == {place: 3}
        assert await admin.delete_records({place: 2}) == {place: 2}
        assert await admin.list_offsets([place], EARLIEST) == {place: 2}
        assert await admin.list_offsets([place], 4_000_000_000_000) == {place: None}


async def test_group_is_described_emptied_and_deleted(server: str) -> None:
    async with Harness(server) as harness:
        admin, place = harness.admin, TopicPartition(harness.topic, 0)
        group = await harness.new_group()
        await harness.produce(2)
        consumer = await harness.consumer(group, client_rack="r1")
        await poll_records(consumer, 2)
        await harness.assigned(group)
        (member,) = (await admin.describe_group(group)).members
        assert (member.member_id, member.topics) == (consumer.member_id, frozenset({harness.topic}))
        assert (member.assignment, member.rack_id) == ({harness.topic: (0,)}, "r1")
        records = (await admin.inspect_records(group, {place: 0}))[place]
        assert records.in_delivery == ((0, 1),)
        await consumer.close()
        assert [listed.state for listed in await admin.list_groups() if listed.group_id == group] == ["Empty"]
        await admin.alter_group_offsets(group, {place: 1})
        position = (await admin.group_offsets(group))[place]
        assert (position.start_offset, position.lag) == (1, 1)
        folded = (await admin.inspect_state(group, place)).folded
        assert folded is not None
        assert folded.start_offset == 1
        await admin.delete_group_offsets(group, [harness.topic])
        assert await admin.group_offsets(group) == {}
        await admin.delete_group(group)
        with pytest.raises(KafkaError) as caught:
            await admin.describe_group(group)
        assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


async def test_unknown_group_has_no_offsets(admin: Admin, name: str) -> None:
    assert await admin.group_offsets(name) == {}


async def test_group_configs_are_set_and_restored(admin: Admin, name: str) -> None:
    reset = "share.auto.offset.reset"
    for value, own in (("earliest", {reset: "earliest"}), (None, {})):
        await admin.alter_group_configs(name, {reset: value})
        configs = await admin.group_configs(name)
        assert {config.name: config.value for config in configs if not config.is_default} == own


Call = Callable[[Admin, str], Awaitable[object]]
REJECTED: list[tuple[Call, ErrorCode]] = [
    (lambda admin, name: admin.create_topic(f"not legal {name}"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (lambda admin, name: admin.create_topic(name, -7), ErrorCode.INVALID_PARTITIONS),
    (lambda admin, name: admin.delete_topic(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (lambda admin, name: admin.create_partitions(name, 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (lambda admin, name: admin.alter_group_configs(name, {"no.such": "1"}), ErrorCode.INVALID_CONFIG),
    (lambda admin, name: admin.delete_group(name), ErrorCode.GROUP_ID_NOT_FOUND),
]


@pytest.mark.parametrize(("call", "code"), REJECTED)
async def test_rejected_request_raises_its_error(
    admin: Admin, name: str, call: Call, code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as caught:
        await call(admin, name)
    assert caught.value.code is code
