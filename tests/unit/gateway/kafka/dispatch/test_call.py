"""Calls, clients and the memory of fetches."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_server.gateway.config import REQUEST_TIMEOUT
from sharebroker_server.gateway.kafka.dispatch.api_table import APIS
from sharebroker_server.gateway.kafka.dispatch.call import FETCH_MEMORY, Client
from sharebroker_server.kafka_wire.messages import ApiVersionsRequest
from tests.unit.gateway.kafka.api.harness import Harness


@pytest.fixture
async def harness() -> Any:
    harness = Harness({"share.version": 0})
    yield harness
    await harness.close()


def test_fetches_in_flight_share_their_memory(harness: Harness) -> None:
    call = harness.call_of(ApiVersionsRequest())
    assert call.limit_bytes(FETCH_MEMORY * 2) == FETCH_MEMORY
    harness.listener.fetch_memory.in_flight = 4
    assert call.limit_bytes(FETCH_MEMORY) == FETCH_MEMORY // 4
    assert call.limit_bytes(1000) == 1000


@pytest.mark.parametrize(
    ("timeout_ms", "seconds"),
    [
        (None, REQUEST_TIMEOUT),
        (0, REQUEST_TIMEOUT),
        (-1, REQUEST_TIMEOUT),
        (500, 0.5),
        (10**9, REQUEST_TIMEOUT),
    ],
)
def test_the_deadline_is_bounded(harness: Harness, timeout_ms: int | None, seconds: float) -> None:
    call = harness.call_of(ApiVersionsRequest())
    assert call.deadline(timeout_ms).remaining() == pytest.approx(seconds, abs=0.4)


@pytest.mark.parametrize(
    ("software", "expected"),
    [
        ("librdkafka 2.12.0", True),
        ("confluent-kafka-python 2.12.0", True),
        ("apache-kafka-java 4.1.0", False),
    ],
)
def test_wrappers_of_librdkafka_are_recognised(software: str, expected: bool) -> None:
    assert Client("kafka-1", "/host", software).is_librdkafka is expected


def test_a_feature_disables_its_apis(harness: Harness) -> None:
    assert not harness.listener.is_enabled(APIS[78])
    keys = [api.key for api in harness.listener.enabled_apis()]
    assert keys == sorted(APIS.keys() - {76, 77, 78, 79, 90, 91, 92})


def test_waiting_idle_requests_are_a_gauge(harness: Harness) -> None:
    names = [family.name for family in harness.listener.families()]
    assert "sharebroker_kafka_quiet_requests_waiting" in names
