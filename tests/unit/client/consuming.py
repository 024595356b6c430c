"""Consumers of a scripted gateway."""

from __future__ import annotations

from typing import Any

from sharebroker.aio import ShareConsumer
from sharebroker.consumer.config import ConsumerConfig
from tests.testkit.waiting import eventually
from tests.unit.client.fake_gateway import FakeGateway, Stream


def joining(gateway: FakeGateway, **config: Any) -> ShareConsumer:
    settings = ConsumerConfig(retry_backoff_ms=10, retry_backoff_max_ms=20, **config)
    return ShareConsumer(gateway.address, "group", ["flights"], settings)


async def stream_of(gateway: FakeGateway, number: int = 1) -> Stream:
    """The gateway's `number`-th stream, once its client has been assigned partitions."""
    await eventually(lambda: len(gateway.streams) >= number and gateway.streams[number - 1].assignment)
    return gateway.streams[number - 1]


def values(count: int) -> list[bytes | None]:
    return [b"v%d" % n for n in range(count)]
