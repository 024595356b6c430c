"""What a consumer does when it joins: the group's first start offset, and topics that do not exist."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker import ConsumerConfig, ErrorCode, KafkaError
from sharebroker.aio import ShareConsumer
from tests.testkit.waiting import eventually
from tests.unit.client.fake_gateway import FakeGateway

EARLIEST = ConsumerConfig(auto_offset_reset="earliest", retry_backoff_ms=1)


async def test_offset_reset_is_set_before_the_member_joins(gateway: FakeGateway) -> None:
    gateway.config_errors = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT]
    async with ShareConsumer(gateway.address, "group", ["flights"], EARLIEST):
        await eventually(lambda: gateway.heartbeats)
        assert gateway.configs == {"share.auto.offset.reset": "earliest"}
        assert gateway.config_errors == []


async def test_group_keeps_its_offset_reset_by_default(gateway: FakeGateway) -> None:
    async with ShareConsumer(gateway.address, "group", ["flights"]):
        await eventually(lambda: gateway.heartbeats)
    assert gateway.configs == {}


async def test_rejected_offset_reset_ends_the_membership(gateway: FakeGateway) -> None:
    gateway.config_errors = [ErrorCode.INVALID_CONFIG]
    async with ShareConsumer(gateway.address, "group", ["flights"], EARLIEST) as consumer:
        with pytest.raises(KafkaError) as caught:
            await consumer.poll(60)
        assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert gateway.heartbeats == []


@pytest.mark.parametrize("errors", [[ErrorCode.INVALID_CONFIG], [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 100])
async def test_consumer_that_did_not_join_closes_at_once(
    gateway: FakeGateway, errors: list[ErrorCode]
) -> None:
    gateway.config_errors = errors.copy()
    consumer = ShareConsumer(gateway.address, "group", ["flights"], EARLIEST)
    async with asyncio.timeout(20):
        async with consumer:
            await eventually(lambda: len(gateway.config_errors) < len(errors))
    assert gateway.heartbeats == []


@pytest.mark.parametrize("partitions", [0, 2])
async def test_missing_topic_is_logged(
    gateway: FakeGateway, caplog: pytest.LogCaptureFixture, partitions: int
) -> None:
    gateway.topic_partitions = partitions
    warning = "consumer waits for topic 'flights', which does not exist"
    async with ShareConsumer(gateway.address, "group", ["flights"]):
        await eventually(lambda: "Metadata" in gateway.client_ids and gateway.heartbeats)
        if not partitions:
            await eventually(lambda: warning in caplog.text)
    assert (warning in caplog.text) == (partitions == 0)
