"""Watches by partitions of other processes, and of several."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.share_calls.messages import await_request, awaited
from sharebroker_server.share_calls.remote import NOTICED, WATCHED, RemoteShareCalls, RemoteWatch
from sharebroker_server.share_calls.watches import JointWatch
from sharebroker_server.testkit.waiting import eventually

PARTS = [TopicIdPartition("t", 1), TopicIdPartition("t", 2)]


class Leader:
    """Answers what a test tells it to."""

    def __init__(self) -> None:
        self.asked: list[tuple[pb.AwaitRecordsRequest, float]] = []
        self.answers: asyncio.Queue[bool | KafkaError] = asyncio.Queue()
        self.cut_off = 0

    async def AwaitRecords(self, request: pb.AwaitRecordsRequest, timeout: float) -> pb.AwaitRecordsResponse:
        self.asked.append((request, timeout))
        try:
            answer = await self.answers.get()
        except asyncio.CancelledError:
            self.cut_off += 1
            raise
        if isinstance(answer, KafkaError):
            raise answer
        return pb.AwaitRecordsResponse(changed=answer)

    def watch(self) -> RemoteWatch:
        return RemoteShareCalls(cast("Any", self)).watch("g", PARTS)


async def test_a_leader_is_asked_again_while_it_has_nothing() -> None:
    leader = Leader()
    watch = leader.watch()
    leader.answers.put_nowait(False)
    await eventually(lambda: len(leader.asked) == 2)
    assert watch.quiet
    request, timeout = leader.asked[0]
    assert (request.group_id, awaited(request), timeout) == ("g", PARTS, WATCHED + NOTICED)
    assert request == await_request("g", PARTS, WATCHED)
    leader.answers.put_nowait(True)
    assert await watch.changes(10)
    assert (watch.quiet, len(leader.asked), leader.cut_off) == (False, 2, 0)


async def test_a_leader_that_is_gone_ends_it() -> None:
    leader = Leader()
    watch = leader.watch()
    leader.answers.put_nowait(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert await watch.changes(10)


async def test_a_watch_that_is_ended_asks_no_more() -> None:
    leader = Leader()
    watch = leader.watch()
    await eventually(lambda: leader.asked)
    watch.end()
    watch.end()
    await eventually(lambda: leader.cut_off == 1)
    assert await watch.changes(10)


@pytest.mark.parametrize("first", [0, 1])
async def test_the_first_of_several_ends_them_all(first: int) -> None:
    leaders = Leader(), Leader()
    watches = [leader.watch() for leader in leaders]
    joint = JointWatch(watches)
    await eventually(lambda: all(leader.asked for leader in leaders))
    assert not await joint.changes(0.0)
    assert joint.quiet
    leaders[first].answers.put_nowait(True)
    assert await joint.changes(10)
    assert not any(watch.quiet for watch in watches)
    await eventually(lambda: leaders[1 - first].cut_off == 1)


async def test_several_are_ended_together() -> None:
    leaders = Leader(), Leader()
    joint = JointWatch([leader.watch() for leader in leaders])
    await eventually(lambda: all(leader.asked for leader in leaders))
    joint.end()
    await eventually(lambda: all(leader.cut_off == 1 for leader in leaders))
