"""KEDA's calls, with its own proto, over a socket: from no backlog to a backlog and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.keda import externalscaler_pb2 as pb
from sharebroker_protocol.keda.externalscaler_pb2_grpc import ExternalScalerStub
from tests.support.client import REJECT, RELEASE, TIMEOUT, Client, connected, rejection, unique
from tests.testkit.brokers import one_process
from tests.testkit.waiting import eventually


class Keda:
    """KEDA's requests about one trigger."""

    def __init__(self, channel: grpc.aio.Channel, metadata: dict[str, str]) -> None:
        self.stub = ExternalScalerStub(channel)
        self.ref = pb.ScaledObjectRef(name="workers", namespace="default", scalerMetadata=metadata)

    async def active(self) -> bool:
        response = await self.stub.IsActive(self.ref, timeout=TIMEOUT)
        return bool(response.result)

    async def metric(self) -> float:
        (spec,) = (await self.stub.GetMetricSpec(self.ref, timeout=TIMEOUT)).metricSpecs
        request = pb.GetMetricsRequest(scaledObjectRef=self.ref, metricName=spec.metricName)
        (value,) = (await self.stub.GetMetrics(request, timeout=TIMEOUT)).metricValues
        assert value.metricName == spec.metricName
        assert value.metricValue == value.metricValueFloat
        return value.metricValueFloat


@pytest.fixture
async def channel(server: str) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(server) as channel:
        yield channel


@pytest.fixture
async def client(server: str) -> AsyncIterator[Client]:
    async with connected(server) as client:
        yield client


async def test_workers_scale_with_the_lag(channel: grpc.aio.Channel, client: Client) -> None:
    topic, _ = await client.create(2)
    group = await client.group()
    keda = Keda(channel, {"group": group, "topic": topic, "lagPerWorker": "3"})
    (spec,) = (await keda.stub.GetMetricSpec(keda.ref, timeout=TIMEOUT)).metricSpecs
    assert (spec.targetSize, spec.targetSizeFloat) == (3, 3.0)
    assert not await keda.active()
    await client.publish(topic, "abcdefg")
    assert await keda.active()  # no member has ever fetched for the group
    assert await keda.metric() == 7
    held = await client.acquire_all(group, topic, 7, "m")
    assert await keda.metric() == 7  # acquired is not finished
    await client.acknowledge(group, "m", held[:5])
    await eventually(lambda: _is(keda, 2), 60)
    await client.acknowledge(group, "m", held[5:])
    await eventually(lambda: _is(keda, 0), 60)
    assert not await keda.active()


async def test_waiting_records_scale_no_workers_until_they_are_due(
    channel: grpc.aio.Channel, client: Client
) -> None:
    topic, _ = await client.create()
    group = await client.group()
    keda = Keda(channel, {"group": group, "topic": topic})
    await client.publish(topic, "abc")
    held = await client.acquire_all(group, topic, 3, "m")
    assert await keda.metric() == 3
    await client.acknowledge(group, "m", held[:1], RELEASE, delay_ms=3_600_000)
    await eventually(lambda: _is(keda, 2), 60)
    await client.acknowledge(group, "m", held[1:2], RELEASE, delay_ms=3_000)
    await client.acknowledge(group, "m", held[2:])
    await eventually(lambda: _is(keda, 0), 60)
    assert not await keda.active()
    await eventually(lambda: _is(keda, 1), 60)
    assert await keda.active()


async def test_archiving_records_scale_no_workers(channel: grpc.aio.Channel, client: Client) -> None:
    topic, _ = await client.create()
    group = await client.group(errors_deadletterqueue_topic_name=unique("absent"))
    keda = Keda(channel, {"group": group, "topic": topic})
    await client.publish(topic, "abc")
    held = await client.acquire_all(group, topic, 3, "m")
    assert await keda.metric() == 3
    await client.acknowledge(group, "m", held[:2], REJECT)
    await eventually(lambda: _is(keda, 1), 60)
    assert await keda.active(), "a member holds the third record"
    await client.acknowledge(group, "m", held[2:])
    await eventually(lambda: _is(keda, 0), 60)
    assert not await keda.active()


async def test_scheduled_records_scale_no_workers_until_their_time(
    channel: grpc.aio.Channel, client: Client
) -> None:
    topic, _ = await client.create(delivery_delay_enable="true")
    group = await client.group()
    keda = Keda(channel, {"group": group, "topic": topic})

    async def publish(**delay: int) -> None:
        record = produce.PublishRecord(text="later", **delay)  # type: ignore[arg-type]
        request = produce.PublishRequest(topic=topic, records=[record])
        await client.produce.Publish(request, timeout=TIMEOUT)

    await publish(deliver_after_ms=3_600_000)
    assert not await keda.active()  # no member has ever fetched for the group
    await client.publish(topic, "ab")
    assert await keda.metric() == 2
    await client.acknowledge(group, "m", await client.acquire_all(group, topic, 2, "m"))
    await eventually(lambda: _is(keda, 0), 60)
    await publish(deliver_after_ms=3_000)
    assert await keda.metric() == 0
    await eventually(lambda: _is(keda, 1), 60)
    assert await keda.active()


async def next_value(stream: Any) -> bool:
    """Returns the next value of a stream."""
    return bool((await stream.read()).result)


async def _is(keda: Keda, metric: float) -> bool:
    return await keda.metric() == metric


async def test_lag_below_the_activation_threshold_starts_no_worker(
    channel: grpc.aio.Channel, client: Client
) -> None:
    topic, _ = await client.create()
    keda = Keda(channel, {"group": await client.group(), "topic": topic, "activationLag": "2"})
    await client.publish(topic, "ab")
    assert not await keda.active()
    await client.publish(topic, "c")
    assert await keda.active()


async def test_an_unknown_group_has_no_lag(channel: grpc.aio.Channel, client: Client) -> None:
    topic, _ = await client.create()
    await client.publish(topic, "ab")
    for metadata in (
        {"group": "absent"},
        {"group": "absent", "topic": topic},
        {"group": "no", "topic": "no"},
    ):
        keda = Keda(channel, metadata)
        assert not await keda.active()
        assert await keda.metric() == 0


async def test_lag_of_a_new_group_counts_from_its_reset_time(
    channel: grpc.aio.Channel, client: Client
) -> None:
    topic, _ = await client.create(2)
    await client.publish(topic, "abc")
    young, late = [
        Keda(channel, {"group": await client.group(share_auto_offset_reset=reset), "topic": topic})
        for reset in ("by_duration:P1D", "latest")
    ]
    assert (await young.metric(), await late.metric()) == (3, 0)
    assert (await young.active(), await late.active()) == (True, False)


async def test_the_stream_reports_every_change(channel: grpc.aio.Channel, client: Client) -> None:
    topic, _ = await client.create()
    group = await client.group()
    keda = Keda(channel, {"group": group, "topic": topic})
    stream = keda.stub.StreamIsActive(keda.ref)
    try:
        async with asyncio.timeout(120):
            assert await next_value(stream) is False
            await client.publish(topic, "a")
            assert await next_value(stream) is True
            held = await client.acquire_all(group, topic, 1, "m")
            await client.acknowledge(group, "m", held)
            assert await next_value(stream) is False
    finally:
        stream.cancel()


async def test_trigger_without_a_group_is_rejected(channel: grpc.aio.Channel) -> None:
    keda = Keda(channel, {"topic": "orders"})
    request = pb.GetMetricsRequest(scaledObjectRef=keda.ref)
    for call in (
        keda.stub.IsActive(keda.ref, timeout=TIMEOUT),
        keda.stub.GetMetricSpec(keda.ref, timeout=TIMEOUT),
        keda.stub.GetMetrics(request, timeout=TIMEOUT),
        keda.stub.StreamIsActive(keda.ref, timeout=TIMEOUT).read(),
    ):
        rejected = await rejection(call)
        assert rejected.code is ErrorCode.INVALID_REQUEST
        assert rejected.fields == ("scalerMetadata.group",)


async def test_invalid_names_are_rejected(channel: grpc.aio.Channel) -> None:
    for metadata, field in (({"group": "g" * 2**15}, "group"), ({"group": "g", "topic": "a topic"}, "topic")):
        keda = Keda(channel, metadata)
        rejected = await rejection(keda.stub.IsActive(keda.ref, timeout=TIMEOUT))
        assert rejected.fields == (f"scalerMetadata.{field}",)


async def test_stopping_gateway_ends_a_stream_cleanly() -> None:
    """KEDA doubles its wait after each failure and never shortens it: after a clean end it returns soon."""
    with one_process() as cluster:
        async with grpc.aio.insecure_channel(cluster.address) as channel:
            keda = Keda(channel, {"group": "g"})
            stream = keda.stub.StreamIsActive(keda.ref, timeout=TIMEOUT)
            assert await next_value(stream) is False
            await asyncio.to_thread(cluster.processes[-1].stop)
            assert await stream.read() is grpc.aio.EOF
