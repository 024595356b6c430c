"""Quotas by Kafka's API and tool: visible after the change, enforced at once, without effect on others."""

from __future__ import annotations

from time import monotonic
from typing import Any

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    ProduceRequest,
)
from tests.support.client import unique
from tests.support.kafka_client import KafkaClient, connected
from tests.support.kafka_tools import needs_kafka, run_tool
from tests.testkit.brokers import Cluster

PRODUCE, METADATA, DESCRIBE, ALTER = 0, 3, 48, 49
_Part, _Op = AlterClientQuotasRequest.EntityData, AlterClientQuotasRequest.OpData


async def alter(
    kafka: KafkaClient, client_id: str, value: float | None, key: str = "request_percentage"
) -> Any:
    entry = AlterClientQuotasRequest.EntryData(
        entity=[_Part(entity_type="client-id", entity_name=client_id)],
        ops=[_Op(key=key, value=value or 0.0, remove=value is None)],
    )
    response = await kafka.ask(ALTER, 1, entries=[entry], validate_only=False)
    return response.entries[0]


async def described(kafka: KafkaClient, client_id: str) -> list[tuple[str, float]]:
    component = DescribeClientQuotasRequest.ComponentData(
        entity_type="client-id", match_type=0, match=client_id
    )
    response = await kafka.ask(DESCRIBE, 1, components=[component], strict=True)
    return [(one.key, one.value) for entry in response.entries for one in entry.values]


async def test_a_quota_is_visible_after_its_change(kafka: KafkaClient) -> None:
    client = unique("client")
    assert (await alter(kafka, client, 5.0)).error_code == ErrorCode.NONE
    assert await described(kafka, client) == [("request_percentage", 5.0)]
    assert (await alter(kafka, client, None)).error_code == ErrorCode.NONE
    assert await described(kafka, client) == []
    refused = await alter(kafka, client, 5.0, "rate")
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Invalid configuration key rate",
    )


async def test_a_client_over_its_quota_waits_and_others_do_not(kafka: KafkaClient, cluster: Cluster) -> None:
    client = unique("client")
    await alter(kafka, client, 1000.0, "producer_byte_rate")
    records = ProduceRequest.PartitionProduceData(index=0, records=b"x" * 12_500)
    topic = ProduceRequest.TopicProduceData(name=unique("missing"), partition_data=[records])
    async with connected(cluster.kafka, client) as limited:
        first = await limited.ask(PRODUCE, 9, acks=-1, timeout_ms=1000, topic_data=[topic])
        assert 1000 < first.throttle_time_ms < 2000, "eleven seconds of the rate at once"
        begun = monotonic()
        limited.send(METADATA, 12, topics=[])
        assert not (await kafka.ask(METADATA, 12, topics=[])).throttle_time_ms
        await limited.answer(METADATA, 12)
        assert monotonic() - begun >= first.throttle_time_ms / 1000 - 0.1


@needs_kafka
def test_kafkas_tool_sets_and_removes_quotas(cluster: Cluster) -> None:
    client = unique("client")

    def configs(*arguments: str) -> str:
        entity = ("--entity-type", "clients", "--entity-name", client)
        at = ("--bootstrap-server", cluster.kafka)
        return run_tool("kafka.admin.ConfigCommand", *at, *entity, *arguments).checked().out

    configs("--alter", "--add-config", "producer_byte_rate=1024,request_percentage=50")
    shown = configs("--describe")
    assert "producer_byte_rate=1024.0" in shown
    assert "request_percentage=50.0" in shown
    configs("--alter", "--delete-config", "producer_byte_rate,request_percentage")
    assert "producer_byte_rate" not in configs("--describe")
