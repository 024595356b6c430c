"""Clients over their quotas: throttle times by kind of quota, and CPU time without waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.quotas import QuotaEntity, QuotaKey, QuotaRecord
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.client_quotas import ClientQuotas
from sharebroker_server.gateway.kafka.call import ClientConnection
from sharebroker_server.gateway.kafka.throttling import ClientThrottle, record_bytes
from sharebroker_server.kafka_wire.messages import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    FetchResponse,
    ShareFetchResponse,
)
from tests.unit.gateway.kafka.api.harness import Harness

CONFIG = BrokerConfig.of({"quota.window.num": "1", "controller.quota.window.num": "1"})
ANYONE = QuotaEntity("")
PRODUCE, FETCH, SHARE_FETCH, HEARTBEAT = 0, 1, 78, 12


class Clients:
    """The throttle of a listener, with a clock that the test moves."""

    def __init__(self, harness: Harness) -> None:
        self.now = 0.0
        self.harness = harness
        self.quotas = ClientQuotas(harness.gateway.catalog, CONFIG, lambda: self.now)
        self.throttle = ClientThrottle(self.quotas)
        harness.listener.throttle = self.throttle

    def limit(self, key: QuotaKey, value: float | None, entity: QuotaEntity = ANYONE) -> None:
        self.harness.gateway.catalog.catalog.quotas.apply(QuotaRecord(entity, key, value))

    def charge(self, api_key: int, size: int = 0, response: Any = None, spent: float = 0.0) -> float:
        assert self.quotas.active
        call: Any = Call(self.harness.client)
        return self.throttle.charge(call, api_key, size, response, spent)


class Call:
    """What the throttle reads of a call."""

    client_id = "c"

    def __init__(self, client: ClientConnection) -> None:
        self.client = client


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    made = Harness()
    yield Clients(made)
    await made.router.close()


def test_without_quotas_nothing_is_charged(clients: Clients) -> None:
    assert not clients.quotas.active
    clients.limit(QuotaKey.PRODUCER_BYTE_RATE, 1.0)
    assert clients.quotas.active
    clients.limit(QuotaKey.PRODUCER_BYTE_RATE, None)
    assert not clients.quotas.active


def test_a_produce_request_is_charged_by_its_size(clients: Clients) -> None:
    clients.limit(QuotaKey.PRODUCER_BYTE_RATE, 100.0)
    assert clients.charge(HEARTBEAT, 1000) == 0.0
    assert clients.charge(PRODUCE, 100) == 0.0
    assert clients.charge(PRODUCE, 50) == pytest.approx(0.5)
    clients.now = 0.5
    assert clients.charge(PRODUCE, 0) == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("api_key", "response"),
    [
        (
            FETCH,
            FetchResponse(
                responses=[
                    FetchResponse.FetchableTopicResponse(
                        partitions=[
                            FetchResponse.PartitionData(records=b"x" * 150),
                            FetchResponse.PartitionData(),
                        ]
                    )
                ]
            ),
        ),
        (
            SHARE_FETCH,
            ShareFetchResponse(
                responses=[
                    ShareFetchResponse.ShareFetchableTopicResponse(
                        partitions=[ShareFetchResponse.PartitionData(records=b"x" * 150)]
                    )
                ]
            ),
        ),
    ],
)
def test_a_fetch_is_charged_by_the_size_of_its_records(clients: Clients, api_key: int, response: Any) -> None:
    clients.limit(QuotaKey.CONSUMER_BYTE_RATE, 100.0)
    assert record_bytes(response) == 150
    assert clients.charge(api_key, 1000, response) == pytest.approx(0.5)


def test_requests_use_percent_of_a_processor(clients: Clients) -> None:
    clients.limit(QuotaKey.REQUEST_PERCENTAGE, 10.0)
    assert clients.charge(HEARTBEAT, spent=0.1) == 0.0
    assert clients.charge(PRODUCE, spent=0.05) == pytest.approx(0.5)


def test_an_address_may_open_connections_at_its_rate(clients: Clients) -> None:
    client = ClientConnection("kafka-1", "/10.0.0.1")
    assert clients.throttle.connected(client)
    clients.limit(QuotaKey.CONNECTION_CREATION_RATE, 2.0, QuotaEntity(ip="10.0.0.1"))
    assert [clients.throttle.connected(client) for _ in range(3)] == [True, True, False]
    assert clients.throttle.connected(ClientConnection("kafka-2", "/10.0.0.2"))
    clients.now = 1.0
    assert clients.throttle.connected(client)


async def test_mutations_over_the_quota_are_refused_or_throttled(clients: Clients) -> None:
    harness = clients.harness
    deleted = pb.DeleteTopicsResponse.Topic(name="a")
    harness.services.reply("DeleteTopics", pb.DeleteTopicsResponse(topics=[deleted]))
    topic = DeleteTopicsRequest.DeleteTopicState(name="a")
    clients.limit(QuotaKey.CONTROLLER_MUTATION_RATE, 2.0)
    call: Any = Call(harness.client)
    clients.throttle.mutate(call, 4, strict=True)
    response = await harness.call(6, DeleteTopicsRequest(topics=[topic]), DeleteTopicsResponse)
    (result,) = response.responses
    assert result.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert 1000 <= response.throttle_time_ms <= 1001
    assert harness.client.throttled == pytest.approx(1.0)
    response = await harness.call(4, DeleteTopicsRequest(topic_names=["a"]), DeleteTopicsResponse)
    (result,) = response.responses
    assert (result.error_code, response.throttle_time_ms) == (ErrorCode.NONE, 1001)


def test_without_a_quota_mutations_are_free(clients: Clients) -> None:
    call: Any = Call(clients.harness.client)
    clients.throttle.mutate(call, 10_000, strict=True)


async def test_only_steps_of_the_work_are_measured(clients: Clients) -> None:
    async def work() -> int:
        await asyncio.sleep(0.05)
        return 5

    spent: list[float] = []
    assert await clients.throttle.timed(work(), spent) == 5
    assert len(spent) == 2
    assert sum(spent) < 0.05


async def test_measured_work_fails_and_is_cancelled_as_usual(clients: Clients) -> None:
    async def fail() -> None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)

    with pytest.raises(KafkaError):
        await clients.throttle.timed(fail(), [])
    cleaned = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    async def measured() -> None:
        await clients.throttle.timed(wait(), [])

    task = asyncio.create_task(measured())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned.is_set()
