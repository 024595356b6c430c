"""Servers with share groups disabled, and with the maximum number of sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, ShareConsumer

from sharebroker_protocol.errors import ErrorCode
from tests.integration.kafka.harness import Harness
from tests.support import kafka_client
from tests.support.client import TIMEOUT, connected, unique
from tests.support.kafka_client import KafkaClient, part
from tests.testkit.brokers import Cluster, one_process
from tests.testkit.waiting import eventually

SHARE_KEYS = (76, 77, 78, 79, 90, 91, 92)


@pytest.fixture(scope="module")
def without_share() -> Iterator[Cluster]:
    with one_process("--feature", "share.version=0") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def two_sessions() -> Iterator[Cluster]:
    limits = ("--set", "group.share.max.size=2", "--set", "group.share.max.share.sessions=2")
    with one_process(*limits) as cluster:
        yield cluster


@pytest.fixture
async def off(without_share: Cluster) -> AsyncIterator[KafkaClient]:
    async with kafka_client.connected(without_share.kafka) as client:
        yield client


# Disabled


@pytest.mark.parametrize("version", range(6))
async def test_share_api_keys_are_not_advertised(off: KafkaClient, version: int) -> None:
    software = {"client_software_name": "test", "client_software_version": "1"} if version >= 3 else {}
    response = await off.ask(18, version, **software)
    keys = {one.api_key for one in response.api_keys}
    assert not keys.intersection(SHARE_KEYS)
    assert {3, 10, 16, 18} <= keys
    assert "share.version" not in {one.name for one in response.finalized_features}


OFF: list[tuple[int, int, dict[str, Any], str]] = [
    (76, 1, {"group_id": "group", "member_id": "member"}, ""),
    (77, 1, {"group_ids": ["group"]}, "groups"),
    (78, 1, {"group_id": "group", "member_id": "member"}, ""),
    (78, 2, {"group_id": "group", "member_id": "member"}, ""),
    (79, 2, {"group_id": "group", "member_id": "member"}, ""),
    (90, 1, {"groups": [part(90, "DescribeShareGroupOffsetsRequestGroup", group_id="group")]}, "groups"),
    (91, 0, {"group_id": "group"}, ""),
    (92, 0, {"group_id": "group"}, ""),
]


@pytest.mark.parametrize(("key", "version", "fields", "responses"), OFF)
async def test_share_requests_are_rejected_as_unsupported(
    off: KafkaClient, key: int, version: int, fields: dict[str, Any], responses: str
) -> None:
    response = await off.ask(key, version, **fields)
    rejected = getattr(response, responses) if responses else [response]
    assert [one.error_code for one in rejected] == [ErrorCode.UNSUPPORTED_VERSION]
    assert [getattr(one, "error_message", None) for one in rejected] == [None]


async def test_librdkafka_receives_the_heartbeat_key_it_requires(off: KafkaClient) -> None:
    for name, advertised in (
        ("librdkafka", {76}),
        ("confluent-kafka-python", {76}),
        ("librdkafka-like", set()),
    ):
        response = await off.ask(18, 4, client_software_name=name, client_software_version="2.16")
        assert {one.api_key for one in response.api_keys}.intersection(SHARE_KEYS) == advertised


async def test_librdkafkas_share_consumer_fails_to_join_at_once(without_share: Cluster) -> None:
    consumer = ShareConsumer({"bootstrap.servers": without_share.kafka, "group.id": unique("group")})
    try:
        consumer.subscribe([unique("topic")])
        with pytest.raises(KafkaException, match="ShareGroupHeartbeat fatal error") as raised:
            await asyncio.to_thread(consumer.poll, TIMEOUT)
        assert raised.value.args[0].code() == ErrorCode.UNSUPPORTED_VERSION
    finally:
        consumer.close()


# Sessions


async def test_sessions_are_limited_until_a_connection_closes(two_sessions: Cluster) -> None:
    async with connected(two_sessions.address) as client:
        harness = Harness(client, two_sessions.kafka)
        at = await harness.readable(records=0)
        async with harness.connect() as one, harness.connect() as another:
            for member in ("first", "second"):
                opened = await one.share_fetch(at.group, member, 0, {at.topic_id: [0]}, max_wait_ms=0)
                assert opened.error_code == 0
            rejected = await another.share_fetch(at.group, "third", 0, {at.topic_id: [0]}, max_wait_ms=1)
            assert rejected.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
            assert (rejected.responses, rejected.acquisition_lock_timeout_ms) == ([], 0)
            await one.close()

            async def has_room() -> bool:
                opened = await another.share_fetch(at.group, "third", 0, {at.topic_id: [0]}, max_wait_ms=1)
                return bool(opened.error_code == 0)

            await eventually(has_room)
