"""Unary calls pay the time that they use, and the partitions that they create or delete."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.keda import externalscaler_pb2 as keda
from sharebroker_server import aio
from sharebroker_server.catalog.quotas import QuotaEntity, QuotaKey, QuotaRecord
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.admin import topics
from sharebroker_server.gateway.client_quotas import ClientQuotas, QuotaClient
from sharebroker_server.gateway.grpc.admin import AdminServicer
from sharebroker_server.gateway.grpc.request_time import charge_unary_calls
from sharebroker_server.rpc.errors import wire
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness

CONFIG = BrokerConfig.of({"quota.window.num": "1", "controller.quota.window.num": "1"})
CALLER = QuotaClient("ANONYMOUS", "")
TIME, MUTATIONS = QuotaKey.REQUEST_PERCENTAGE, QuotaKey.CONTROLLER_MUTATION_RATE


class Context:
    """What a servicer reads of a call."""

    def invocation_metadata(self) -> tuple[()]:
        return ()

    def time_remaining(self) -> float:
        return 100.0

    def peer(self) -> str:
        return "ipv4:10.0.0.1:5000"


class Scaler:
    """A servicer whose calls take a second of the event loop; `now` is the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.fails = False

    async def IsActive(self, _request: object, _context: object) -> str:
        self.now += 1.0
        if self.fails:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return "served"

    GetMetricSpec = GetMetrics = StreamIsActive = IsActive


class Clients:
    """A gateway whose quotas have a clock that stands still, and record the waits."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.waits: list[float] = []
        quotas = ClientQuotas(harness.gateway.catalog, CONFIG, lambda: 0.0, self._sleep)
        self.quotas = harness.gateway.quotas = quotas

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def limit(self, key: QuotaKey, value: float) -> None:
        record = QuotaRecord(QuotaEntity(""), key, value)
        self.harness.gateway.catalog.catalog.quotas.apply(record)

    def debt(self, key: QuotaKey) -> float:
        """Returns the seconds that the caller must wait."""
        return self.quotas.charge(key, CALLER, 0)


@pytest.fixture
async def clients() -> Any:
    harness = Harness()
    yield Clients(harness)
    await harness.close()


@pytest.fixture
def scaler(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Scaler()
    monkeypatch.setattr(aio, "perf_counter", lambda: made.now)
    charge_unary_calls(clients.harness.gateway, "externalscaler.ExternalScaler", made)
    return made


async def test_without_quotas_no_time_is_charged(clients: Clients, scaler: Any) -> None:
    assert await scaler.IsActive(keda.ScaledObjectRef(), Context()) == "served"
    clients.limit(TIME, 50.0)
    assert clients.debt(TIME) == 0.0


async def test_a_call_waits_until_the_earlier_time_is_paid(clients: Clients, scaler: Any) -> None:
    clients.limit(TIME, 50.0)
    assert await scaler.IsActive(keda.ScaledObjectRef(), Context()) == "served"
    assert clients.debt(TIME) == pytest.approx(1.0)
    assert not clients.waits
    assert await scaler.IsActive(keda.ScaledObjectRef(), Context()) == "served"
    assert clients.debt(TIME) == pytest.approx(3.0)
    assert clients.waits == [pytest.approx(1.0)]


async def test_failed_calls_are_charged_and_streams_are_not(clients: Clients, scaler: Any) -> None:
    clients.limit(TIME, 50.0)
    assert await scaler.StreamIsActive(keda.ScaledObjectRef(), Context()) == "served"
    assert clients.debt(TIME) == 0.0
    scaler.fails = True
    with pytest.raises(KafkaError):
        await scaler.IsActive(keda.ScaledObjectRef(), Context())
    assert clients.debt(TIME) == pytest.approx(1.0)


def _create(partitions: int, *, validate_only: bool = False) -> pb.CreateTopicsRequest:
    topic = pb.CreateTopicsRequest.Topic(name="new", num_partitions=partitions)
    return pb.CreateTopicsRequest(topics=[topic], validate_only=validate_only)


def _add(count: int, *, validate_only: bool = False) -> pb.CreatePartitionsRequest:
    topics = [pb.CreatePartitionsRequest.Topic(name=name, count=count) for name in (TOPIC.name, "unknown")]
    return pb.CreatePartitionsRequest(topics=topics, validate_only=validate_only)


def _delete(**topic: str) -> pb.DeleteTopicsRequest:
    return pb.DeleteTopicsRequest(topics=[pb.DeleteTopicsRequest.Topic(**topic)])


def _reply(clients: Clients, code: ErrorCode) -> None:
    """Has the catalog return one result per topic, each with this error."""

    def created(request: Any) -> Any:
        result = pb.CreateTopicsResponse.Topic(error_code=wire(code))
        return pb.CreateTopicsResponse(topics=[result] * len(request.topics))

    def deleted(request: Any) -> Any:
        result = pb.DeleteTopicsResponse.Topic(error_code=wire(code))
        return pb.DeleteTopicsResponse(topics=[result] * len(request.topics))

    def added(request: Any) -> Any:
        result = pb.CreatePartitionsResponse.Topic(error_code=wire(code))
        return pb.CreatePartitionsResponse(results=[result] * len(request.topics))

    services = clients.harness.services
    services.reply("CreateTopics", created)
    services.reply("DeleteTopics", deleted)
    services.reply("CreatePartitions", added)


@pytest.mark.parametrize(
    ("method", "request_", "partitions"),
    [
        ("CreateTopics", _create(5), 5),
        ("CreateTopics", _create(0), 1),
        ("CreateTopics", _create(5, validate_only=True), 0),
        ("CreatePartitions", _add(7), 5),
        ("CreatePartitions", _add(1), 0),
        ("CreatePartitions", _add(7, validate_only=True), 0),
        ("DeleteTopics", _delete(name=TOPIC.name), 2),
        ("DeleteTopics", _delete(topic_id=TOPIC.topic_id), 2),
        ("DeleteTopics", _delete(name="unknown"), 0),
    ],
)
async def test_created_and_deleted_partitions_are_charged(
    clients: Clients, method: str, request_: Any, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "await_visible", AsyncMock())
    _reply(clients, ErrorCode.NONE)
    call = getattr(AdminServicer(clients.harness.gateway), method)
    await call(request_, Context())
    clients.limit(MUTATIONS, 0.5)
    clients.quotas.charge(MUTATIONS, CALLER, 0.5)
    await call(request_, Context())
    assert clients.debt(MUTATIONS) == pytest.approx(2.0 * partitions)
    if partitions:
        with pytest.raises(KafkaError) as refusal:
            await call(request_, Context())
        assert refusal.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert refusal.value.retry_after == pytest.approx(2.0 * partitions)
    assert len(clients.harness.services.requests[method]) == 2


@pytest.mark.parametrize(
    ("method", "request_"),
    [("CreateTopics", _create(5)), ("CreatePartitions", _add(7)), ("DeleteTopics", _delete(name=TOPIC.name))],
)
async def test_rejected_changes_are_not_charged(clients: Clients, method: str, request_: Any) -> None:
    _reply(clients, ErrorCode.POLICY_VIOLATION)
    clients.limit(MUTATIONS, 0.5)
    clients.quotas.charge(MUTATIONS, CALLER, 0.5)
    await getattr(AdminServicer(clients.harness.gateway), method)(request_, Context())
    assert clients.debt(MUTATIONS) == 0.0


async def test_only_topics_that_are_created_are_charged(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "await_visible", AsyncMock())
    results = [
        pb.CreateTopicsResponse.Topic(error_code=wire(code))
        for code in (ErrorCode.INVALID_CONFIG, ErrorCode.NONE)
    ]
    clients.harness.services.reply("CreateTopics", pb.CreateTopicsResponse(topics=results))
    clients.limit(MUTATIONS, 0.5)
    clients.quotas.charge(MUTATIONS, CALLER, 0.5)
    request = pb.CreateTopicsRequest(topics=[*_create(5).topics, *_create(3).topics])
    await AdminServicer(clients.harness.gateway).CreateTopics(request, Context())
    assert clients.debt(MUTATIONS) == pytest.approx(6.0)


async def test_a_call_of_unknown_outcome_stays_charged(clients: Clients) -> None:
    clients.harness.services.fail("CreateTopics", ErrorCode.REQUEST_TIMED_OUT)
    clients.limit(MUTATIONS, 0.5)
    clients.quotas.charge(MUTATIONS, CALLER, 0.5)
    with pytest.raises(KafkaError):
        await AdminServicer(clients.harness.gateway).CreateTopics(_create(5), Context())
    assert clients.debt(MUTATIONS) == pytest.approx(10.0)
