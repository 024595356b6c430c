"""A heartbeat that is like the last one is answered without being served, if nothing else is to be done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import GroupCoordinatorServiceStub
from sharebroker_server.gateway.kafka.api import share_group_heartbeat
from sharebroker_server.gateway.kafka.dispatch.call import Call
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes
from tests.support.kafka_client import KafkaClient, connected
from tests.unit.gateway.kafka.bench import Bench

_R = response_shapes(76)


class Member:
    """A member of a group whose coordinator has `served` heartbeats, and `kept` sessions otherwise."""

    def __init__(self, bench: Bench, kafka: KafkaClient) -> None:
        self.bench = bench
        self.kafka = kafka
        self.served: list[int] = []
        self.kept: list[tuple[str, str, int]] = []
        self.steady = True
        self.epoch = 5
        self.error: KafkaError | None = None
        bench.apis[76] = replace(share_group_heartbeat.API, handle=self._serve, feature=None)
        bench.router.register_local(GroupCoordinatorServiceStub, self, self)

    def stays(self, group_id: str, member_id: str, member_epoch: int) -> bool:
        self.kept.append((group_id, member_id, member_epoch))
        return self.steady

    async def _serve(self, call: Call) -> Message:
        self.served.append(call.request.member_epoch)
        if self.error is not None:
            raise self.error
        return _R.ShareGroupHeartbeatResponse(member_id="m", member_epoch=self.epoch, heartbeat_interval_ms=7)

    async def beat(self, epoch: int = 5, **fields: Any) -> Any:
        return await self.kafka.heartbeat("g", "m", epoch, **fields)


@pytest.fixture
async def member(bench: Bench) -> AsyncIterator[Member]:
    async with connected(bench.address) as kafka:
        yield Member(bench, kafka)


async def test_the_same_again_is_answered_the_same(member: Member) -> None:
    first = await member.beat()
    for _ in range(3):
        again = await member.beat()
        assert again == first
        assert again.heartbeat_interval_ms == 7
    assert member.served == [5]
    assert member.kept == 3 * [("g", "m", 5)]


async def test_another_epoch_is_served(member: Member) -> None:
    await member.beat()
    member.epoch = 6
    await member.beat(6)
    assert member.served == [5, 6]
    assert member.kept == []


async def test_what_says_something_is_served(member: Member) -> None:
    await member.beat()
    await member.beat(subscribed_topic_names=["a"])
    assert member.served == [5, 5]
    assert member.kept == []


async def test_one_for_which_there_is_more_to_do_is_served(member: Member) -> None:
    await member.beat()
    member.steady = False
    await member.beat()
    assert member.served == [5, 5]
    member.steady = True
    await member.beat()
    assert member.served == [5, 5]


@pytest.mark.parametrize("epoch", [0, -1])
async def test_joining_and_leaving_are_served_every_time(member: Member, epoch: int) -> None:
    member.epoch = epoch
    await member.beat(epoch)
    await member.beat(epoch)
    assert member.served == [epoch, epoch]


async def test_a_member_that_got_a_new_epoch_is_served(member: Member) -> None:
    member.epoch = 6
    await member.beat()
    await member.beat()
    assert member.served == [5, 5]


async def test_after_a_refusal_it_is_served(member: Member) -> None:
    await member.beat()
    member.steady, member.error = False, KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    for _ in range(2):
        assert (await member.beat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert member.served == [5, 5, 5]


async def test_where_another_process_coordinates_it_is_served(member: Member) -> None:
    await member.beat()
    member.bench.router.register_local(GroupCoordinatorServiceStub, member)
    await member.beat()
    assert member.served == [5, 5]


async def test_other_brokers_have_it_served(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    await member.beat()
    monkeypatch.setattr(type(member.bench.door.brokers), "unchanged", lambda *_: False)
    await member.beat()
    assert member.served == [5, 5]
    assert member.kept == []


async def test_it_counts_as_activity_of_its_connection(member: Member) -> None:
    """A connection that only heartbeats is not an idle one."""
    await member.beat()
    await member.beat()
    await member.bench.past_checks(599)
    assert (await member.beat()).error_code == 0
