"""A fetch that found nothing and comes again is answered without being served, unless something happened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import AcquiredRange, TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
    SharePartitionLeaderServiceStub,
)
from sharebroker_server.catalog.records import ConfigRecord, ConfigResource, ResourceType
from sharebroker_server.gateway.config import REQUEST_TIMEOUT
from sharebroker_server.gateway.kafka.api import share_fetch
from sharebroker_server.gateway.kafka.dispatch.call import Call
from sharebroker_server.kafka_wire.message_classes import Message
from sharebroker_server.share_calls.values import (
    AcknowledgeCall,
    Acknowledged,
    AcquireCall,
    Acquisition,
    SettleCall,
    Settlement,
)
from sharebroker_server.share_partition_leader.requests.records_watch import ShareWatch
from sharebroker_server.testkit.waiting import eventually
from tests.support.kafka_client import KafkaClient, connected, fetch_topics
from tests.unit.gateway.fakes import TOPIC, Leader
from tests.unit.gateway.kafka.bench import Bench, Caller

SHORT, LONG = 5, 15_000


class Watch(ShareWatch):
    """Nobody waits by it: the time of who would is up at once."""

    async def changes(self, timeout: float) -> bool:
        return not self.quiet


class Calls:
    """A leader of this process that has nothing until it has `found` records."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.found: list[AcquiredRange] = []
        self.watches: list[Watch] = []

    async def acquire(self, call: AcquireCall) -> list[Acquisition]:
        self.waits.append(call.max_wait)
        return [Acquisition(*part, acquired=self.found) for part in call.partitions]

    async def acknowledge(self, call: AcknowledgeCall, timeout: float) -> list[Acknowledged]:
        raise NotImplementedError

    async def settle(self, call: SettleCall, timeout: float) -> list[Settlement]:
        raise NotImplementedError

    def watch(self, group_id: str, partitions: Sequence[TopicIdPartition]) -> Watch:
        self.watches.append(Watch([]))
        return self.watches[-1]

    def find(self) -> None:
        """Records come."""
        self.found = [AcquiredRange(0, 0, 1, 1, 0.0)]
        self.watches[-1].end()


class Idle:
    """A member whose session was told that there is nothing. `served` are epochs of requests since then."""

    def __init__(self, bench: Bench, stack: AsyncExitStack) -> None:
        self.bench = bench
        self.calls = Calls()
        self.served: list[int] = []
        self._stack = stack
        self.epoch = 0
        self.wait = SHORT
        bench.router.register_local(SharePartitionLeaderServiceStub, Leader())  # it releases records
        bench.router.register_share_calls(self.calls)
        bench.apis[78] = replace(share_fetch.API, handle=self._serve, feature=None)

    async def _serve(self, call: Call) -> Message:
        self.served.append(call.request.share_session_epoch)
        return await share_fetch.handle(call)

    async def connect(self) -> KafkaClient:
        return await self._stack.enter_async_context(connected(self.bench.address))

    async def begin(self, max_wait_ms: int) -> None:
        self.kafka = await self.connect()
        await self.bench.router.leader(TOPIC.topic_id, 0)
        self.send({TOPIC.topic_id: [0]})
        assert (await self.answer()).error_code == 0
        self.send()
        assert (await self.answer()).responses == []
        self.wait = max_wait_ms
        self.send()
        assert (await self.answer()).responses == []
        self.served.clear()

    def send(self, wanted: dict[str, Sequence[int]] | None = None) -> None:
        """The session's next request."""
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
        (session,) = self.bench.gateway.sessions._sessions.values()
        return session

    async def waits(self) -> None:
        """The next request has come, and is not served."""
        self.send()
        await eventually(lambda: self.session.epoch == self.epoch)
        assert self.served == []


@pytest.fixture(params=[LONG])
async def idle(bench: Bench, request: pytest.FixtureRequest) -> AsyncIterator[Idle]:
    async with AsyncExitStack() as stack:
        idle = Idle(bench, stack)
        await idle.begin(request.param)
        yield idle
    await bench.open_count(0)


short = pytest.mark.parametrize("idle", [SHORT], indirect=True)


@short
async def test_when_its_time_is_up_there_still_was_nothing(idle: Idle) -> None:
    for _ in range(3):
        idle.send()
        answer = await idle.answer()
        assert (answer.error_code, answer.responses) == (0, [])
        assert answer.acquisition_lock_timeout_ms == idle.bench.gateway.lock_timeout_ms("g")
    assert idle.served == []


async def test_what_happens_has_it_served_for_the_rest_of_its_time(idle: Idle) -> None:
    await idle.waits()
    await asyncio.sleep(0.02)
    idle.calls.find()
    assert (await idle.answer()).responses
    assert idle.served == [3]
    assert 0 < idle.calls.waits[-1] < LONG / 1000


async def test_what_is_asked_behind_it_is_answered_behind_it(idle: Idle) -> None:
    await idle.waits()
    Caller(idle.kafka).say("next")
    assert (await idle.answer()).responses == []
    assert await Caller(idle.kafka).hear() == "next"
    assert idle.served == [3]


async def test_another_request_at_its_epoch_comes_too_late(idle: Idle) -> None:
    await idle.waits()
    other = await idle.connect()
    idle.ask(other, 3, SHORT)
    refused: Any = (await other.answer(78, 2))[1]
    assert refused.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


async def test_one_that_was_overtaken_is_refused(idle: Idle) -> None:
    await idle.waits()
    other = await idle.connect()
    idle.ask(other, 4, SHORT)
    assert (await idle.answer()).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


async def test_a_wrong_epoch_is_refused(idle: Idle) -> None:
    idle.epoch = 17
    idle.send()
    assert (await idle.answer()).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


async def test_a_client_that_goes_ends_its_session(idle: Idle) -> None:
    await idle.waits()
    Caller(idle.kafka).crash()
    await idle.bench.open_count(0)
    assert len(idle.bench.gateway.sessions) == 0
    assert not idle.calls.watches[-1].quiet
    assert idle.served == []


async def test_who_waits_is_not_idle(idle: Idle) -> None:
    await idle.waits()
    await idle.bench.past_checks(1e9)
    assert idle.bench.connections == 1


async def test_stopping_cuts_it_off(idle: Idle) -> None:
    await idle.waits()
    await idle.bench.server.stop(1.0)
    idle.bench.server.close()
    assert await idle.kafka.is_closed()


async def test_another_lock_duration_has_it_served(idle: Idle) -> None:
    group = ConfigResource(ResourceType.GROUP, "g")
    idle.bench.configure(ConfigRecord(group, "share.record.lock.duration.ms", "15000"))
    idle.send()
    assert (await idle.answer()).acquisition_lock_timeout_ms == 15_000
    assert idle.served == [3]


@short
async def test_other_brokers_have_it_served(idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(idle.bench.door.brokers), "unchanged", lambda *_: False)
    idle.send()
    assert (await idle.answer()).responses == []
    assert idle.served == [3]


@short
async def test_a_client_may_wait_for_longer_than_other_requests_take(idle: Idle) -> None:
    idle.calls.find()
    idle.wait = 45_000
    idle.send()
    assert (await idle.answer()).responses
    assert idle.calls.waits[-1] > REQUEST_TIMEOUT
