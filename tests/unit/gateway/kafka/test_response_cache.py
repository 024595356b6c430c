"""Cached responses of idle clients: of any API, of ShareFetch, of ShareGroupHeartbeat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import GroupCoordinatorServiceStub
from sharebroker_protocol.model import AcquiredRange, TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
    SharePartitionLeaderServiceStub,
)
from sharebroker_server.catalog.records import ConfigRecord
from sharebroker_server.catalog.topics import ConfigResource, ResourceType
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT
from sharebroker_server.gateway.kafka.api import share_fetch, share_group_heartbeat
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.response_cache import CachedResponse
from sharebroker_server.kafka_wire.frames import codec_of, read_response, request_frame
from sharebroker_server.kafka_wire.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    ShareGroupHeartbeatResponse,
)
from sharebroker_server.kafka_wire.schema import Message
from sharebroker_server.leader_calls.values import (
    AcknowledgeCall,
    AckResult,
    AcquireCall,
    AcquireResult,
    ReconcileCall,
    ReconcileResult,
)
from sharebroker_server.share_partition_leader.requests.local_leader import LocalWatch
from tests.support.kafka_client import KafkaClient, connected, fetch_topics
from tests.testkit.waiting import eventually
from tests.unit.gateway.fakes import TOPIC, Leader
from tests.unit.gateway.kafka.api.harness import Harness as ApiHarness
from tests.unit.gateway.kafka.harness import Caller, Harness

HEARTBEAT, VERSION = 12, 4
REQUEST = HeartbeatRequest(group_id="g", member_id="m")


class Cache(CachedResponse):
    key = HEARTBEAT
    current = True

    @override
    def _accepts(self, data: bytes) -> bool:
        return self._template.matches(data)

    @override
    def _is_current(self) -> bool:
        return self.current


class Client:
    """An idle client and its cached response after a wait of 10 ms."""

    def __init__(self, harness: ApiHarness) -> None:
        self.harness = harness
        self.replies: list[bytearray] = []
        self.dispatched: list[tuple[bytes, float]] = []
        call = harness.call_of(REQUEST, VERSION)
        response = HeartbeatResponse(throttle_time_ms=3)
        self.cache = Cache(call, response, self.replies.append, self._dispatch, 0.01)

    def _dispatch(self, data: bytes, queued_for: float) -> None:
        self.dispatched.append((data, queued_for))

    def frame(self, number: int, request: HeartbeatRequest = REQUEST) -> bytes:
        return bytes(request_frame(number, "client", codec_of(HEARTBEAT, VERSION), request))


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    harness = ApiHarness()
    yield Client(harness)
    await harness.close()


async def test_the_response_has_the_correlation_id_of_the_request(client: Client) -> None:
    for number in (5, 6):
        assert client.cache.accept(client.frame(number))
        assert client.cache.waiting
        await asyncio.sleep(0.05)
        assert not client.cache.waiting
        found, response = read_response(bytes(client.replies[-1][4:]), codec_of(HEARTBEAT, VERSION))
        assert (found, response) == (number, HeartbeatResponse(throttle_time_ms=3))
    assert client.harness.listener.metrics.cached[HEARTBEAT] == 2
    assert client.dispatched == []


async def test_another_request_is_not_accepted(client: Client) -> None:
    assert not client.cache.accept(client.frame(5, HeartbeatRequest(group_id="g", member_id="n")))
    assert not client.cache.waiting


async def test_a_change_has_the_request_served_after_the_wait(client: Client) -> None:
    client.cache.accept(client.frame(5))
    client.cache.current = False
    await asyncio.sleep(0.05)
    ((data, queued_for),) = client.dispatched
    assert data == client.frame(5)
    assert queued_for > 0.009  # 0.01 without the rounding of floats
    assert client.replies == []


async def test_a_cancelled_request_is_discarded(client: Client) -> None:
    client.cache.accept(client.frame(5))
    client.cache.cancel()
    await asyncio.sleep(0.05)
    assert (client.replies, client.dispatched, client.cache.waiting) == ([], [], False)
    client.cache.dispatch()
    assert client.dispatched == []


SHORT, LONG = 5, 15_000


class Watch(LocalWatch):
    """An observer on which no fetch waits."""

    async def changes(self, timeout: float) -> bool:
        return not self.active


class Calls:
    """A leader in this process without records until `find` is called."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.found: list[AcquiredRange] = []
        self.watches: list[Watch] = []

    async def acquire(self, call: AcquireCall) -> list[AcquireResult]:
        self.waits.append(call.max_wait)
        return [AcquireResult(*part, acquired=self.found) for part in call.partitions]

    async def acknowledge(self, call: AcknowledgeCall, timeout: float) -> list[AckResult]:
        raise NotImplementedError

    async def reconcile(self, call: ReconcileCall, timeout: float) -> list[ReconcileResult]:
        raise NotImplementedError

    async def watch(self, group_id: str, partitions: Sequence[TopicIdPartition]) -> Watch:
        self.watches.append(Watch())
        return self.watches[-1]

    def find(self) -> None:
        """Makes records available."""
        self.found = [AcquiredRange(0, 0, 1, 1, 0.0)]
        self.watches[-1].end()


class Idle:
    """A member whose last fetch returned no records. `served` are the epochs of requests since then."""

    def __init__(self, harness: Harness, stack: AsyncExitStack) -> None:
        self.harness = harness
        self.calls = Calls()
        self.served: list[int] = []
        self._stack = stack
        self.epoch = 0
        self.wait = SHORT
        harness.router.register_local(SharePartitionLeaderServiceStub, Leader(), self.calls)
        harness.apis[78] = replace(share_fetch.API, handle=self._serve, feature=None)

    async def _serve(self, call: Call[Any]) -> Message:
        self.served.append(call.request.share_session_epoch)
        return await share_fetch.handle(call)

    async def connect(self) -> KafkaClient:
        return await self._stack.enter_async_context(connected(self.harness.address))

    async def begin(self, max_wait_ms: int) -> None:
        self.kafka = await self.connect()
        await self.harness.router.leader(TOPIC.topic_id, 0)
        self.send({TOPIC.topic_id: [0]})
        assert (await self.answer()).error_code == 0
        self.send()
        assert (await self.answer()).responses == []
        self.wait = max_wait_ms
        self.send()
        assert (await self.answer()).responses == []
        self.served.clear()

    def send(self, wanted: dict[str, Sequence[int]] | None = None) -> None:
        """Sends the session's next request."""
        self.ask(self.kafka, self.epoch, self.wait, wanted)
        self.epoch += 1

    @staticmethod
    def ask(
        kafka: KafkaClient, epoch: int, max_wait_ms: int, wanted: dict[str, Sequence[int]] | None = None
    ) -> None:
        topics = fetch_topics(wanted or {}, {})
        sizes = {"max_wait_ms": max_wait_ms, "max_records": 5, "max_bytes": 1000}
        kafka.send(78, 2, group_id="g", member_id="m", share_session_epoch=epoch, topics=topics, **sizes)

    async def answer(self) -> Any:
        return (await self.kafka.answer(78, 2))[1]

    @property
    def session(self) -> Any:
        (session,) = self.harness.gateway.sessions._sessions.values()
        return session

    async def waits(self) -> None:
        """Sends the next request, which is not served."""
        self.send()
        await eventually(lambda: self.session.epoch == self.epoch)
        assert self.served == []


@pytest.fixture(params=[LONG])
async def idle(harness: Harness, request: pytest.FixtureRequest) -> AsyncIterator[Idle]:
    async with AsyncExitStack() as stack:
        idle = Idle(harness, stack)
        await idle.begin(request.param)
        yield idle
    await harness.open_count(0)


short = pytest.mark.parametrize("idle", [SHORT], indirect=True)


@short
async def test_the_cached_response_is_sent_when_the_wait_ends(idle: Idle) -> None:
    for _ in range(3):
        idle.send()
        response = await idle.answer()
        assert (response.error_code, response.responses) == (0, [])
        assert response.acquisition_lock_timeout_ms == idle.harness.gateway.catalog.lock_timeout_ms("g")
    assert idle.served == []


async def test_new_records_have_the_waiting_fetch_served_for_its_remaining_wait(idle: Idle) -> None:
    await idle.waits()
    await asyncio.sleep(0.02)
    idle.calls.find()
    assert (await idle.answer()).responses
    assert idle.served == [3]
    assert 0 < idle.calls.waits[-1] < LONG / 1000


async def test_response_to_a_following_request_waits_for_the_fetch(idle: Idle) -> None:
    await idle.waits()
    Caller(idle.kafka).send("next")
    assert (await idle.answer()).responses == []
    assert await Caller(idle.kafka).receive() == "next"
    assert idle.served == [3]


async def test_another_request_with_the_same_epoch_is_rejected(idle: Idle) -> None:
    await idle.waits()
    other = await idle.connect()
    idle.ask(other, 3, SHORT)
    refused: Any = (await other.answer(78, 2))[1]
    assert refused.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


async def test_a_waiting_fetch_with_an_outdated_epoch_is_rejected(idle: Idle) -> None:
    await idle.waits()
    other = await idle.connect()
    idle.ask(other, 4, SHORT)
    assert (await idle.answer()).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


async def test_a_wrong_epoch_is_rejected(idle: Idle) -> None:
    idle.epoch = 17
    idle.send()
    assert (await idle.answer()).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


async def test_a_disconnect_ends_the_session(idle: Idle) -> None:
    await idle.waits()
    Caller(idle.kafka).crash()
    await idle.harness.open_count(0)
    assert len(idle.harness.gateway.sessions) == 0
    assert not idle.calls.watches[-1].active
    assert idle.served == []


async def test_a_client_with_a_waiting_fetch_is_not_idle(idle: Idle) -> None:
    await idle.waits()
    await idle.harness.past_checks(1e9)
    assert idle.harness.connections == 1


async def test_stop_ends_the_waiting_fetch(idle: Idle) -> None:
    await idle.waits()
    await idle.harness.server.stop(1.0)
    idle.harness.server.close()
    assert await idle.kafka.is_closed()


async def test_a_changed_lock_duration_has_the_fetch_served(idle: Idle) -> None:
    group = ConfigResource(ResourceType.GROUP, "g")
    idle.harness.configure(ConfigRecord(group, "share.record.lock.duration.ms", "15000"))
    idle.send()
    assert (await idle.answer()).acquisition_lock_timeout_ms == 15_000
    assert idle.served == [3]


@short
async def test_a_changed_cluster_view_has_the_fetch_served(
    idle: Idle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(idle.harness.listener.brokers), "unchanged", lambda *_: False)
    idle.send()
    assert (await idle.answer()).responses == []
    assert idle.served == [3]


@short
async def test_long_poll_may_exceed_the_request_timeout(idle: Idle) -> None:
    idle.calls.find()
    idle.wait = 45_000
    idle.send()
    assert (await idle.answer()).responses
    assert idle.calls.waits[-1] > REQUEST_TIMEOUT


class Member:
    """A member of a group whose coordinator has `served` heartbeats, and `kept` sessions otherwise."""

    def __init__(self, harness: Harness, kafka: KafkaClient) -> None:
        self.harness = harness
        self.kafka = kafka
        self.served: list[int] = []
        self.kept: list[tuple[str, str, int]] = []
        self.steady = True
        self.epoch = 5
        self.error: KafkaError | None = None
        harness.apis[76] = replace(share_group_heartbeat.API, handle=self._serve, feature=None)
        harness.router.register_local(GroupCoordinatorServiceStub, self, self)

    def stays(self, group_id: str, member_id: str, member_epoch: int) -> bool:
        self.kept.append((group_id, member_id, member_epoch))
        return self.steady

    async def _serve(self, call: Call[Any]) -> Message:
        self.served.append(call.request.member_epoch)
        if self.error is not None:
            raise self.error
        return ShareGroupHeartbeatResponse(member_id="m", member_epoch=self.epoch, heartbeat_interval_ms=7)

    async def beat(self, epoch: int = 5, **fields: Any) -> Any:
        return await self.kafka.heartbeat("g", "m", epoch, **fields)


@pytest.fixture
async def member(harness: Harness) -> AsyncIterator[Member]:
    async with connected(harness.address) as kafka:
        yield Member(harness, kafka)


async def test_a_repeated_heartbeat_gets_the_cached_response(member: Member) -> None:
    first = await member.beat()
    for _ in range(3):
        again = await member.beat()
        assert again == first
        assert again.heartbeat_interval_ms == 7
    assert member.served == [5]
    assert member.kept == 3 * [("g", "m", 5)]


async def test_a_heartbeat_with_another_epoch_is_served(member: Member) -> None:
    await member.beat()
    member.epoch = 6
    await member.beat(6)
    assert member.served == [5, 6]
    assert member.kept == []


async def test_a_full_heartbeat_is_served(member: Member) -> None:
    await member.beat()
    await member.beat(subscribed_topic_names=["a"])
    assert member.served == [5, 5]
    assert member.kept == []


async def test_a_heartbeat_is_served_when_the_group_changed(member: Member) -> None:
    await member.beat()
    member.steady = False
    await member.beat()
    assert member.served == [5, 5]
    member.steady = True
    await member.beat()
    assert member.served == [5, 5]


async def test_a_heartbeat_is_served_after_a_change_of_the_catalog(member: Member) -> None:
    await member.beat()
    resource = ConfigResource(ResourceType.BROKER, "")
    member.harness.configure(ConfigRecord(resource, "group.share.heartbeat.interval.ms", "6000"))
    await member.beat()
    await member.beat()
    assert member.served == [5, 5], "a change may be one of the ACLs"


@pytest.mark.parametrize("epoch", [0, -1])
async def test_join_and_leave_are_always_served(member: Member, epoch: int) -> None:
    member.epoch = epoch
    await member.beat(epoch)
    await member.beat(epoch)
    assert member.served == [epoch, epoch]


async def test_a_heartbeat_is_served_after_a_new_epoch(member: Member) -> None:
    member.epoch = 6
    await member.beat()
    await member.beat()
    assert member.served == [5, 5]


async def test_a_heartbeat_is_served_after_a_refusal(member: Member) -> None:
    await member.beat()
    member.steady, member.error = False, KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    for _ in range(2):
        assert (await member.beat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.served == [5, 5, 5]


async def test_a_heartbeat_is_served_when_another_process_coordinates(member: Member) -> None:
    await member.beat()
    member.harness.router.register_local(GroupCoordinatorServiceStub, member)
    await member.beat()
    assert member.served == [5, 5]


async def test_a_changed_cluster_view_has_the_heartbeat_served(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    await member.beat()
    monkeypatch.setattr(type(member.harness.listener.brokers), "unchanged", lambda *_: False)
    await member.beat()
    assert member.served == [5, 5]
    assert member.kept == []


async def test_a_cached_heartbeat_is_activity_of_its_connection(member: Member) -> None:
    """A connection that only heartbeats is not an idle one."""
    await member.beat()
    await member.beat()
    await member.harness.past_checks(599)
    assert (await member.beat()).error_code == 0
