"""The wait until a change is visible: it wakes the catalog again and again, for a limited time."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.forwarding import visibility
from sharebroker_server.kafka_wire.messages import CreateTopicsRequest
from tests.unit.gateway.kafka.api.harness import Harness
from tests.unit.gateway.kafka.forwarding.harness import FakeUpstream


async def test_the_catalog_is_woken_until_it_has_the_change(
    harness: Harness, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bool] = []

    async def look(*_: object) -> None:
        looks.append(upstream.fake.topics_changed.is_set())
        upstream.fake.topics_changed.clear()
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    monkeypatch.setattr(harness.gateway.catalog, "wait_for", look)
    call = harness.call_of(CreateTopicsRequest(timeout_ms=60_000))
    await visibility.until_visible(upstream, call, lambda _: len(looks) == 3)
    assert looks == [True] * 3


async def test_the_wait_ends_with_its_limit(
    harness: Harness, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visibility, "VISIBLE_SECONDS", 0.02)
    call = harness.call_of(CreateTopicsRequest(timeout_ms=60_000))
    await visibility.until_visible(upstream, call, lambda _: False)
    assert upstream.fake.topics_changed.is_set()
