"""What doctor finds at a scripted Kafka broker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.broker.core.diagnosis import Level
from sharebroker_server.broker.examination import upstream as upstream_examination
from sharebroker_server.broker.examination.upstream import examine_upstream
from sharebroker_server.kafka_client.core.apis import DESCRIBE_CONFIGS, FETCH, METADATA
from sharebroker_server.kafka_client.settings import upstream_settings
from sharebroker_server.kafka_wire.messages import DescribeConfigsResponse, FetchResponse, MetadataResponse
from sharebroker_server.kafka_wire.schema import Message
from tests.testkit.servers import free_port
from tests.unit.kafka_client.harness import OFFERED, Broker, serving


def script(
    broker: Broker, codes: Mapping[str, int], leader: int = 0, retention_ms: int | None = 86_400_000
) -> None:
    """Lets a broker serve topics of one partition each, whose fetches have these error codes."""

    def metadata() -> Message:
        part = MetadataResponse.MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=1)
        return MetadataResponse(
            cluster_id="kafka-1",
            brokers=[MetadataResponse.MetadataResponseBroker(node_id=0, host="127.0.0.1", port=broker.port)],
            topics=[MetadataResponse.MetadataResponseTopic(name=name, partitions=[part]) for name in codes],
        )

    def configs(message: Any) -> Message:
        kept = DescribeConfigsResponse.DescribeConfigsResourceResult(
            name="retention.ms", value=str(retention_ms)
        )
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResponse.DescribeConfigsResult(
                    resource_type=2,
                    resource_name=each.resource_name,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED if retention_ms is None else 0,
                    configs=[kept],
                )
                for each in message.resources
            ]
        )

    async def respond(key: int, _: int, message: Any) -> Message | None:
        if key == METADATA.key:
            return metadata()
        if key == DESCRIBE_CONFIGS.key:
            return configs(message)
        if key != FETCH.key:
            return None
        (topic,) = message.topics
        part = FetchResponse.PartitionData(partition_index=0, error_code=codes[topic.topic], high_watermark=0)
        return FetchResponse(
            responses=[FetchResponse.FetchableTopicResponse(topic=topic.topic, partitions=[part])]
        )

    broker.respond = respond


async def findings(broker: Broker) -> list[tuple[Level, str]]:
    settings = upstream_settings(None, f"127.0.0.1:{broker.port}")
    return [(found.level, found.what) for found in await examine_upstream(settings)]


NO_IDS = (Level.NOTE, "It has no topic ids: a topic that is quickly recreated counts as the same.")


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE])
async def test_readable_topics_have_no_finding(code: ErrorCode) -> None:
    async with serving(Broker()) as broker:
        script(broker, {"a": code, "__internal": ErrorCode.TOPIC_AUTHORIZATION_FAILED})
        assert await findings(broker) == [NO_IDS]


async def test_topics_without_the_right_to_read_are_named() -> None:
    async with serving(Broker()) as broker:
        script(broker, {"a": 0, "b": ErrorCode.TOPIC_AUTHORIZATION_FAILED})
        assert (Level.ERROR, "b cannot be read: TOPIC_AUTHORIZATION_FAILED.") in await findings(broker)


async def test_topics_with_a_short_retention_are_named() -> None:
    async with serving(Broker()) as broker:
        script(broker, {"a": 0, "b": 0}, retention_ms=60_000)
        (found, _) = await findings(broker)
        assert found[0] is Level.WARNING
        assert found[1].startswith("a, b keep records for less than an hour")


async def test_topics_without_the_right_to_their_configs_are_named() -> None:
    async with serving(Broker()) as broker:
        script(broker, {"a": 0}, retention_ms=None)
        (found, _) = await findings(broker)
        assert found == (Level.WARNING, "The retention of a is unknown, so that no alert warns of deletion.")


async def test_partitions_without_leader_are_named() -> None:
    async with serving(Broker()) as broker:
        script(broker, {"a": 0}, leader=-1)
        (found, _) = await findings(broker)
        assert found == (
            Level.WARNING,
            "a have partitions without a leader, whose records are not delivered.",
        )


async def test_a_broker_of_an_old_release_is_named() -> None:
    async with serving(Broker(offered={**OFFERED, FETCH.key: (0, 3)})) as broker:
        script(broker, {"a": 0})
        ((level, what),) = await findings(broker)
        assert level is Level.ERROR
        assert "The broker offers versions 0 to 3 of Fetch" in what


async def test_addresses_that_do_not_respond_are_named() -> None:
    async with serving(Broker()) as broker:
        script(broker, {"a": 0})
        closed = free_port()
        settings = upstream_settings(None, f"127.0.0.1:{closed},127.0.0.1:{broker.port}")
        found = (await examine_upstream(settings))[0]
        assert (found.level, found.subject) == (Level.WARNING, f"upstream 127.0.0.1:{closed}")
        (alone,) = await examine_upstream(upstream_settings(None, f"127.0.0.1:{closed}"))
        assert alone.level is Level.ERROR


async def test_a_leader_that_does_not_respond_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_examination, "WITHIN", 0.05)
    async with serving(Broker()) as broker:
        script(broker, {"a": 0})
        answer = broker.respond
        assert answer is not None

        async def silent(key: int, version: int, message: Any) -> Message | bytes | None:
            if key == FETCH.key:
                await asyncio.Event().wait()
            return await answer(key, version, message)

        broker.respond = silent
        (found, _) = await findings(broker)
        assert found[0] is Level.ERROR
        assert "a cannot be read: " in found[1]
