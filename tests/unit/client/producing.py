"""Producers for a scripted gateway."""

from __future__ import annotations

from typing import Any

from sharebroker import ProducerConfig
from sharebroker.aio import Producer
from tests.unit.client.fake_gateway import FakeGateway


def producing(gateway: FakeGateway, **config: Any) -> Producer:
    return Producer(gateway.address, ProducerConfig(retry_backoff_ms=10, retry_backoff_max_ms=20, **config))
