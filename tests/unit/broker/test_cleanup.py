"""Cleanup after a member left or a topic was deleted, while brokers start and stop."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn, cast

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader_pb
from sharebroker_server.broker import cleanup
from sharebroker_server.broker.cleanup import Cleanup
from sharebroker_server.catalog.records import TopicDeletedRecord, TopicRecord
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.routing.router import Peer, Router
from tests.testkit.waiting import eventually

ME = ClusterMember("1/1", 1, frozenset(), "here:1")
OTHER = ClusterMember("2/1", 2, frozenset(), "there:1")


class Silent:
    """A leader that does not reply."""

    async def ReleaseMember(self, request: leader_pb.ReleaseMemberRequest, *, timeout: float) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError


class Owners:
    """A router for one share coordinator; `owners` are the catalog's, one a look-up, the last one stays."""

    def __init__(self, *owners: ClusterMember | None) -> None:
        self.owners = list(owners)
        self.forgotten: list[str] = []
        self.released: list[str] = []

    async def owner_of(self, resource: str) -> ClusterMember | None:
        return self.owners.pop(0) if len(self.owners) > 1 else self.owners[0]

    def is_self(self, member: ClusterMember) -> bool:
        return member is ME

    def leaders(self) -> list[Peer[Any]]:
        return [Peer(OTHER, Silent()), Peer(ME, self)]

    async def leader(self, topic_id: str, partition: int) -> Peer[Any]:
        if topic_id != "t":
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        return Peer(ME, self)

    async def ReleaseMember(
        self, request: leader_pb.ReleaseMemberRequest, *, timeout: float
    ) -> leader_pb.ReleaseMemberResponse:
        self.released.append(request.member_id)
        return leader_pb.ReleaseMemberResponse()

    def share_coordinators(self) -> list[Peer[Any]]:
        return [Peer(ME, self)]

    def check_all_answered(self, role: str, shards: list[int]) -> None:
        assert shards == [0]

    async def DeleteTopicState(
        self, request: pb.DeleteTopicStateRequest, *, timeout: float
    ) -> pb.DeleteTopicStateResponse:
        self.forgotten.append(request.topic_id)
        return pb.DeleteTopicStateResponse(shards=[0])


async def test_unresponsive_leader_does_not_delay_others() -> None:
    owners = Owners(ME)
    departed = Cleanup(cast("Router", owners))
    departed.member_left("g", "m")
    await eventually(lambda: owners.released == ["m"])
    await departed.stop()


async def test_state_changes_wait_for_leaders_up_to_a_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cleanup, "RELOAD_TIMEOUT", 0.05)
    owners = Owners(ME)
    departed = Cleanup(cast("Router", owners))
    await departed.state_changed("g", [])
    assert owners.released == [""]
    await departed.stop()


async def test_state_changes_reach_leaders_that_are_not_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owners = Owners(ME)
    monkeypatch.setattr(owners, "leaders", list)
    departed = Cleanup(cast("Router", owners))
    await departed.state_changed("g", [("t", 0), ("t", 1), ("unowned", 0)])
    assert owners.released == [""]
    await departed.stop()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "PAUSE", 0.001)


async def test_state_of_a_deleted_topic_is_removed_before_the_catalog_has_an_owner() -> None:
    owners = Owners(None, None, ME)
    departed = Cleanup(cast("Router", owners))
    departed.metadata_changed(TopicRecord(Topic("T0", "a", 1)))
    departed.metadata_changed(TopicDeletedRecord("T1"))
    await eventually(lambda: owners.forgotten == ["T1"])
    await departed.stop()


async def test_only_the_catalog_owner_removes_state_of_deleted_topics() -> None:
    owners = Owners(OTHER)
    departed = Cleanup(cast("Router", owners))
    departed.metadata_changed(TopicDeletedRecord("T1"))
    await eventually(lambda: not departed._tasks._running)
    assert owners.forgotten == []
