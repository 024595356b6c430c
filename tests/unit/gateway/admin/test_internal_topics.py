"""Reading internal topics from the shards' owners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import GroupCoordinatorServiceStub
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import ShareCoordinatorServiceStub
from sharebroker_server.catalog.topics import OFFSETS_TOPIC_ID, STATE_TOPIC_ID
from sharebroker_server.gateway.admin import internal_topics
from sharebroker_server.gateway.admin.internal_topics import Fetched, FetchPartition, Found
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness


class Shards:
    """A coordinator with `records` per shard; it replies when a shard has records or the wait ends."""

    def __init__(self) -> None:
        self.records: dict[int, bytes] = {}
        self._appended: dict[int, asyncio.Event] = {}
        self.requests: list[Any] = []
        self.waiting = 0
        self.fail: Callable[[int], None] = lambda _: None

    def append(self, shard: int, records: bytes) -> None:
        self.records[shard] = records
        self._appended[shard].set()

    async def FetchShareGroupState(self, request: pb.FetchShareGroupStateRequest, _: Any) -> Fetched:
        self.requests.append(request)
        self.fail(request.shard)
        if request.max_wait_ms and request.shard not in self.records:
            self.waiting += 1
            try:
                with suppress(TimeoutError):
                    appended = self._appended.setdefault(request.shard, asyncio.Event())
                    await asyncio.wait_for(appended.wait(), request.max_wait_ms / 1000)
            finally:
                self.waiting -= 1
        return Fetched(record_batches=self.records.get(request.shard, b""), high_watermark=request.shard)

    async def FindShareGroupStateOffset(self, request: pb.FindShareGroupStateOffsetRequest, _: Any) -> Found:
        self.requests.append(request)
        self.fail(request.shard)
        return Found(offset=request.shard, timestamp=request.timestamp)

    FetchGroupLog = FetchShareGroupState
    FindGroupLogOffset = FindShareGroupStateOffset


@pytest.fixture
def shards(harness: Harness) -> Shards:
    shards = Shards()
    harness.router.register_local(ShareCoordinatorServiceStub, shards)
    return shards


def wanted(*partitions: int) -> list[FetchPartition]:
    return [FetchPartition(STATE_TOPIC_ID, partition, 0, 1000) for partition in partitions]


async def fetch(harness: Harness, *partitions: int, max_wait: float = 0.0) -> list[bytes | ErrorCode]:
    return [
        one.code if isinstance(one, KafkaError) else one.record_batches
        for one in await internal_topics.fetch(harness.gateway, wanted(*partitions), max_wait)
    ]


async def test_requests_are_sent_to_the_shard_of_each_partition(harness: Harness, shards: Shards) -> None:
    shards.records = {7: b"seven"}
    assert await fetch(harness, 3, 7, max_wait=60.0) == [b"", b"seven"]
    assert [(request.shard, request.max_bytes, request.max_wait_ms) for request in shards.requests] == [
        (3, 1000, 0),
        (7, 1000, 0),
    ]


async def test_a_long_poll_returns_the_first_records(harness: Harness, shards: Shards) -> None:
    fetching = asyncio.create_task(fetch(harness, 3, 7, max_wait=60.0))
    await eventually(lambda: shards.waiting == 2)
    shards.append(7, b"seven")
    assert await fetching == [b"", b"seven"]
    await eventually(lambda: shards.waiting == 0)


async def test_wait_ends_at_its_deadline(harness: Harness, shards: Shards) -> None:
    assert await fetch(harness, 3, 7, max_wait=0.01) == [b"", b""]


async def test_withdraw_removes_the_announcement(harness: Harness, shards: Shards) -> None:
    fetching = asyncio.create_task(fetch(harness, 3, max_wait=60.0))
    await eventually(lambda: shards.waiting == 1)
    fetching.cancel()
    await asyncio.wait({fetching})
    await eventually(lambda: shards.waiting == 0)


async def test_errors_are_returned_at_once(harness: Harness, shards: Shards) -> None:
    def fail(shard: int) -> None:
        if shard == 3:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)

    shards.fail = fail
    assert await fetch(harness, 3, 7, max_wait=60.0) == [ErrorCode.OFFSET_OUT_OF_RANGE, b""]


async def test_a_moved_shard_is_looked_up_again(harness: Harness, shards: Shards) -> None:
    failures = iter([ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])

    def fail(_: int) -> None:
        if (code := next(failures, None)) is not None:
            raise KafkaError(code)

    shards.fail = fail
    found = await internal_topics.find_offset(harness.gateway, STATE_TOPIC_ID, 3, -1)
    assert (found.offset, found.timestamp) == (3, -1)
    assert harness.ownership.forgotten == ["share-coordinator:3"] * 2


async def test_a_shard_without_owner_has_no_leader(
    harness: Harness, shards: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internal_topics, "SHARD_LOG_PATIENCE", 0.02)
    harness.ownership.no_owner = True
    assert await fetch(harness, 3) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    with pytest.raises(KafkaError) as refused:
        await internal_topics.find_offset(harness.gateway, STATE_TOPIC_ID, 3, -1)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_group_logs_come_from_the_group_coordinator(harness: Harness, shards: Shards) -> None:
    groups = Shards()
    harness.router.register_local(GroupCoordinatorServiceStub, groups)
    shards.records, groups.records = {3: b"state"}, {3: b"offsets"}
    both = [FetchPartition(topic_id, 3, 0, 1000) for topic_id in (OFFSETS_TOPIC_ID, STATE_TOPIC_ID)]
    responses = await internal_topics.fetch(harness.gateway, both)
    assert [one.record_batches for one in responses if isinstance(one, Fetched)] == [b"offsets", b"state"]
    failures = iter([ErrorCode.NOT_COORDINATOR])

    def fail(_: int) -> None:
        if (code := next(failures, None)) is not None:
            raise KafkaError(code)

    groups.fail = fail
    found = await internal_topics.find_offset(harness.gateway, OFFSETS_TOPIC_ID, 3, -2)
    assert (found.offset, found.timestamp) == (3, -2)
    assert harness.ownership.forgotten == ["group-coordinator:3"]


async def test_a_topic_has_a_partition_for_each_shard(harness: Harness) -> None:
    topics = internal_topics.topics(harness.gateway)
    assert [(topic.name, topic.partitions) for topic in topics] == [
        ("__share_group_state", 50),
        ("__consumer_offsets", 50),
    ]
