"""Configs by Kafka's own requests: of topics, groups, one broker and all brokers."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from tests.integration.kafka.harness import Harness
from tests.support.client import unique
from tests.support.kafka_client import KafkaClient, part

DESCRIBE, REPLACE, CHANGE, LIST = 32, 33, 44, 74
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
NEW = "share.auto.offset.reset"


async def described(kafka: KafkaClient, kind: int, name: str, **fields: Any) -> Any:
    """Returns the one result of a DescribeConfigs."""
    version = fields.pop("version", 4)
    keys = fields.pop("keys", None)
    resource = part(
        DESCRIBE, "DescribeConfigsResource", resource_type=kind, resource_name=name, configuration_keys=keys
    )
    (result,) = (await kafka.ask(DESCRIBE, version, resources=[resource], **fields)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def values(kafka: KafkaClient, kind: int, name: str) -> dict[str, str]:
    """Returns the configs that are set on the resource itself."""
    result = await described(kafka, kind, name)
    assert result.error_code == 0, result.error_message
    own = {TOPIC: 1, BROKER: 2 if name else 3, GROUP: 8}[kind]
    return {config.name: config.value for config in result.configs if config.config_source == own}


def resource(key: int, kind: int, name: str, *configs: tuple[Any, ...]) -> Any:
    made = []
    for config_name, value, *operation in configs:
        fields = {"config_operation": operation[0]} if operation else {}
        made.append(part(key, "AlterableConfig", name=config_name, value=value, **fields))
    return part(key, "AlterConfigsResource", resource_type=kind, resource_name=name, configs=made)


async def alter(kafka: KafkaClient, key: int, *resources: Any, version: int = 1, **fields: Any) -> list[int]:
    response = await kafka.ask(key, version, resources=resources, **fields)
    for one in response.responses:
        assert bool(one.error_message) == bool(one.error_code)
    return [one.error_code for one in response.responses]


async def change(kafka: KafkaClient, kind: int, name: str, *configs: tuple[Any, ...], **fields: Any) -> int:
    (code,) = await alter(kafka, CHANGE, resource(CHANGE, kind, name, *configs), **fields)
    return code


async def replace(kafka: KafkaClient, kind: int, name: str, *configs: tuple[Any, ...], **fields: Any) -> int:
    (code,) = await alter(kafka, REPLACE, resource(REPLACE, kind, name, *configs), **fields)
    return code


async def node(kafka: KafkaClient) -> str:
    """Returns the id of the connected broker: with one gateway the only broker."""
    (broker,) = (await kafka.ask(3, 13, topics=[])).brokers
    return str(broker.node_id)


@pytest.mark.parametrize("version", [0, 1])
async def test_topic_configs_are_set_and_reset(harness: Harness, kafka: KafkaClient, version: int) -> None:
    topic, _ = await harness.client.create()
    assert (
        await change(
            kafka, TOPIC, topic, ("retention.ms", "9000", SET), ("segment.ms", "1", SET), version=version
        )
        == 0
    )
    assert await values(kafka, TOPIC, topic) == {"retention.ms": "9000", "segment.ms": "1"}
    assert await change(kafka, TOPIC, topic, ("segment.ms", None, DELETE), version=version) == 0
    assert await values(kafka, TOPIC, topic) == {"retention.ms": "9000"}


async def test_list_configs_are_appended_and_subtracted(harness: Harness, kafka: KafkaClient) -> None:
    topic, _ = await harness.client.create()
    name = "leader.replication.throttled.replicas"
    assert await change(kafka, TOPIC, topic, (name, "0:1,1:2", APPEND)) == 0
    assert await change(kafka, TOPIC, topic, (name, "1:2,2:3", APPEND)) == 0
    assert await values(kafka, TOPIC, topic) == {name: "0:1,1:2,2:3"}
    assert await change(kafka, TOPIC, topic, (name, "0:1", SUBTRACT)) == 0
    assert await values(kafka, TOPIC, topic) == {name: "1:2,2:3"}
    assert await change(kafka, TOPIC, topic, ("cleanup.policy", "delete", APPEND)) == 0
    assert (
        await change(kafka, TOPIC, topic, ("cleanup.policy", "delete", SUBTRACT)) == ErrorCode.INVALID_CONFIG
    )


async def test_concurrent_changes_are_all_applied(harness: Harness) -> None:
    topic, _ = await harness.client.create()
    name, parts = "leader.replication.throttled.replicas", {f"{number}:0" for number in range(6)}
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(harness.connect()) for _ in parts]
        changes = [
            change(client, TOPIC, topic, (name, one, APPEND))
            for client, one in zip(clients, parts, strict=True)
        ]
        assert set(await asyncio.gather(*changes)) == {0}
        found = await values(clients[0], TOPIC, topic)
    assert set(found[name].split(",")) == parts


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (("nonsense", "1", SET), ErrorCode.INVALID_CONFIG),
        (("nonsense", "1", APPEND), ErrorCode.INVALID_CONFIG),
        (("retention.ms", "soon", SET), ErrorCode.INVALID_CONFIG),
        (("retention.ms", "1", APPEND), ErrorCode.INVALID_CONFIG),
        (("cleanup.policy", "compact", SET), ErrorCode.INVALID_CONFIG),
        (("retention.ms", None, SET), ErrorCode.INVALID_REQUEST),
        (("retention.ms", "1", 9), ErrorCode.INVALID_REQUEST),
    ],
    ids=str,
)
async def test_rejected_change_has_no_effect(
    harness: Harness, kafka: KafkaClient, config: tuple[Any, ...], code: ErrorCode
) -> None:
    topic, _ = await harness.client.create()
    assert await change(kafka, TOPIC, topic, ("segment.ms", "7", SET), config) == code
    assert await values(kafka, TOPIC, topic) == {}


async def test_each_resource_has_its_own_result(harness: Harness, kafka: KafkaClient) -> None:
    topic, _ = await harness.client.create()
    group = unique("group")
    asked = [
        resource(CHANGE, TOPIC, topic, ("retention.ms", "1", SET)),
        resource(CHANGE, TOPIC, unique("missing"), ("retention.ms", "1", SET)),
        resource(CHANGE, TOPIC, "not legal", ("retention.ms", "1", SET)),
        resource(CHANGE, GROUP, group, (NEW, "earliest", SET)),
        resource(CHANGE, GROUP, "", (NEW, "earliest", SET)),
        resource(CHANGE, GROUP, unique("group"), ("share.record.lock.duration.ms", "999", SET)),
        resource(CHANGE, METRICS, "m", ("metrics", "*", SET)),
        resource(CHANGE, BROKER, "123456", ("num.partitions", "1", SET)),
        resource(CHANGE, BROKER, "none", ("num.partitions", "1", SET)),
        resource(CHANGE, BROKER, "", ("node.id", "1", SET)),
    ]
    assert await alter(kafka, CHANGE, *asked) == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        0,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert await values(kafka, GROUP, group) == {NEW: "earliest"}


async def test_duplicate_resource_is_rejected(harness: Harness, kafka: KafkaClient) -> None:
    topic, _ = await harness.client.create()
    one = resource(CHANGE, TOPIC, topic, ("retention.ms", "1", SET))
    assert await alter(kafka, CHANGE, one, one) == [ErrorCode.INVALID_REQUEST] * 2
    twice = (("retention.ms", "1", SET), ("retention.ms", "2", SET))
    assert await change(kafka, TOPIC, topic, *twice) == ErrorCode.INVALID_REQUEST
    assert await values(kafka, TOPIC, topic) == {}


async def test_validate_only_changes_nothing(harness: Harness, kafka: KafkaClient) -> None:
    topic, _ = await harness.client.create()
    setting = ("retention.ms", "1")
    assert await change(kafka, TOPIC, topic, (*setting, SET), validate_only=True) == 0
    assert await replace(kafka, TOPIC, topic, setting, validate_only=True) == 0
    bad = ("retention.ms", "soon", SET)
    assert await change(kafka, TOPIC, topic, bad, validate_only=True) == ErrorCode.INVALID_CONFIG
    assert await values(kafka, TOPIC, topic) == {}


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_replacement_resets_unnamed_configs(harness: Harness, kafka: KafkaClient, version: int) -> None:
    topic, _ = await harness.client.create()
    await change(kafka, TOPIC, topic, ("retention.ms", "1", SET), ("segment.ms", "2", SET))
    assert await replace(kafka, TOPIC, topic, ("segment.ms", "3"), ("flush.ms", "4"), version=version) == 0
    assert await values(kafka, TOPIC, topic) == {"segment.ms": "3", "flush.ms": "4"}
    rejected = await replace(kafka, TOPIC, topic, ("nonsense", "1"), version=version)
    assert rejected == ErrorCode.INVALID_CONFIG
    assert (
        await replace(kafka, TOPIC, topic, ("flush.ms", None), version=version) == ErrorCode.INVALID_REQUEST
    )
    assert await values(kafka, TOPIC, topic) == {"segment.ms": "3", "flush.ms": "4"}


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_configs_are_described_with_their_source(
    harness: Harness, kafka: KafkaClient, version: int
) -> None:
    topic, _ = await harness.client.create()
    await change(kafka, TOPIC, topic, ("max.message.bytes", "2000", SET))
    result = await described(
        kafka, TOPIC, topic, version=version, include_synonyms=True, include_documentation=version >= 3
    )
    config = {one.name: one for one in result.configs}["max.message.bytes"]
    assert (config.value, config.config_source, config.read_only, config.is_sensitive) == (
        "2000",
        1,
        False,
        False,
    )
    assert [(one.name, one.value, one.source) for one in config.synonyms] == [
        ("max.message.bytes", "2000", 1),
        ("message.max.bytes", "1048588", 5),
    ]
    if version >= 3:
        assert (config.config_type, config.documentation) == (
            3,
            "Largest record batch that a topic accepts.",
        )
    plain = await described(kafka, TOPIC, topic, version=version, keys=["segment.ms", "nonsense"])
    assert [(one.name, list(one.synonyms), one.documentation) for one in plain.configs] == [
        ("segment.ms", [], None)
    ]
    # A missing and an empty list of keys both mean every key.
    no_key: tuple[list[str] | None, ...] = (None, [])
    every = [await described(kafka, TOPIC, topic, version=version, keys=keys) for keys in no_key]
    assert len(every[0].configs) > 20
    assert [one.name for one in every[0].configs] == [one.name for one in every[1].configs]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "not legal", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (BROKER, "123456", ErrorCode.INVALID_REQUEST),
        (BROKER, "none", ErrorCode.INVALID_REQUEST),
        (LOGGER, "0", ErrorCode.INVALID_REQUEST),
        (METRICS, "m", ErrorCode.INVALID_REQUEST),
        (99, "m", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_resource_without_configs_is_an_error(
    kafka: KafkaClient, kind: int, name: str, code: ErrorCode
) -> None:
    result = await described(kafka, kind, name)
    assert (result.error_code, bool(result.error_message), list(result.configs)) == (code, True, [])


async def test_group_has_configs_before_it_exists(kafka: KafkaClient) -> None:
    group = unique("group")
    result = await described(kafka, GROUP, group, include_synonyms=True)
    config = {one.name: one for one in result.configs}["share.record.lock.duration.ms"]
    assert (config.value, config.config_source) == ("30000", 5)
    assert [one.name for one in config.synonyms] == ["group.share.record.lock.duration.ms"]
    assert await change(kafka, GROUP, group, ("share.record.lock.duration.ms", "20000", SET)) == 0
    assert await values(kafka, GROUP, group) == {"share.record.lock.duration.ms": "20000"}
    listed = await kafka.ask(LIST, 1, resource_types=[GROUP])
    assert group in [one.resource_name for one in listed.config_resources]
    assert await change(kafka, GROUP, group, ("share.record.lock.duration.ms", None, DELETE)) == 0
    listed = await kafka.ask(LIST, 1, resource_types=[GROUP])
    assert group not in [one.resource_name for one in listed.config_resources]


async def test_config_of_one_broker_overrides_the_default(kafka: KafkaClient) -> None:
    me, name = await node(kafka), "log.retention.bytes"
    try:
        assert await change(kafka, BROKER, "", (name, "500000000", SET)) == 0
        assert await change(kafka, BROKER, me, (name, "600000000", SET)) == 0
        assert await values(kafka, BROKER, "") == {name: "500000000"}
        assert await values(kafka, BROKER, me) == {name: "600000000"}
        result = await described(kafka, BROKER, me, keys=[name, "node.id"], include_synonyms=True)
        mine, fixed = sorted(result.configs, key=lambda one: one.name)
        assert [(one.value, one.source) for one in mine.synonyms] == [
            ("600000000", 2),
            ("500000000", 3),
            ("-1", 5),
        ]
        assert (mine.read_only, fixed.read_only, fixed.value) == (False, True, me)
    finally:
        for broker in ("", me):
            await change(kafka, BROKER, broker, (name, None, DELETE))
    assert await values(kafka, BROKER, "") == {}


async def test_resources_with_configs_are_listed(harness: Harness, kafka: KafkaClient) -> None:
    topic, _ = await harness.client.create()
    me = await node(kafka)
    everything = await kafka.ask(LIST, 1, resource_types=[])
    listed = {(one.resource_type, one.resource_name) for one in everything.config_resources}
    assert {(TOPIC, topic), (BROKER, me)} <= listed
    brokers = await kafka.ask(LIST, 1, resource_types=[BROKER, METRICS])
    assert [(one.resource_type, one.resource_name) for one in brokers.config_resources] == [(BROKER, me)]
    assert list((await kafka.ask(LIST, 0)).config_resources) == []
    unknown = await kafka.ask(LIST, 1, resource_types=[99])
    assert unknown.error_code == ErrorCode.UNSUPPORTED_VERSION
