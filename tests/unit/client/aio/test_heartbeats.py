"""Heartbeats: errors, fencing and changes of the assignment, against a scripted gateway."""

from __future__ import annotations

import pytest

from sharebroker import ErrorCode, KafkaError, TopicPartition
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2 import ShareGroupHeartbeatRequest
from tests.testkit.waiting import eventually
from tests.unit.client.consuming import joining, stream_of
from tests.unit.client.fake_gateway import FakeGateway


async def test_fatal_heartbeat_error_ends_membership(gateway: FakeGateway) -> None:
    gateway.heartbeat_errors = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    async with joining(gateway) as consumer:
        with pytest.raises(KafkaError) as caught:
            await consumer.poll(5)
        assert caught.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_unauthorized_topic_is_raised_once(gateway: FakeGateway) -> None:
    gateway.heartbeat_errors = [ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    async with joining(gateway) as consumer:
        with pytest.raises(KafkaError) as caught:
            await consumer.poll(5)
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await consumer.poll(0) == []


async def test_fenced_member_rejoins_with_its_id(gateway: FakeGateway) -> None:
    async with joining(gateway, client_rack="r1") as consumer:
        await stream_of(gateway)
        gateway.heartbeat_errors = [ErrorCode.FENCED_MEMBER_EPOCH]

        def joins() -> list[ShareGroupHeartbeatRequest]:
            return [heartbeat for heartbeat in gateway.heartbeats if heartbeat.member_epoch == 0]

        await eventually(lambda: len(joins()) == 2)
        assert {join.member_id for join in joins()} == {consumer.member_id}
        assert [join.rack_id for join in joins()] == ["r1", "r1"]


class Listener:
    def __init__(self) -> None:
        self.calls: list[tuple[str, frozenset[TopicPartition]]] = []

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.calls.append(("revoked", partitions))

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.calls.append(("assigned", partitions))

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self.calls.append(("lost", partitions))


def parts(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("flights", n) for n in numbers)


async def test_listener_runs_within_polls_only(gateway: FakeGateway) -> None:
    listener = Listener()
    gateway.partitions = [0, 1]

    async def called(number: int) -> None:
        async def polled() -> bool:
            await consumer.poll(0.01)
            return len(listener.calls) == number

        await eventually(polled)

    async with joining(gateway, listener=listener) as consumer:
        await eventually(lambda: len(gateway.heartbeats) > 2)
        assert listener.calls == []
        assert gateway.stream.assignment == []
        await called(1)
        await eventually(lambda: gateway.stream.assignment == [0, 1])
        gateway.partitions = [1, 2]
        await called(3)
        await eventually(lambda: gateway.stream.assignment == [1, 2])
        gateway.heartbeat_errors = [ErrorCode.UNKNOWN_MEMBER_ID]
        await called(5)
    assert listener.calls == [
        ("assigned", parts(0, 1)),
        ("revoked", parts(0)),
        ("assigned", parts(2)),
        ("lost", parts(1, 2)),
        ("assigned", parts(1, 2)),
        ("revoked", parts(1, 2)),  # by closing
    ]


async def test_raising_listener_does_not_block_membership(
    gateway: FakeGateway,
) -> None:
    class Angry(Listener):
        def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
            super().on_partitions_assigned(partitions)
            raise ArithmeticError("mine")

    async with joining(gateway, listener=Angry()) as consumer:
        with pytest.raises(ArithmeticError, match="mine"):
            await consumer.poll(5)
        await eventually(lambda: gateway.stream.assignment == [0])
