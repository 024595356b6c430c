"""Acquisition from any partition of topics, and initialisation of share state without a membership."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

import grpc
import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.rpc_status import from_rpc_error
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.consume.topic_acquire import TopicAcquire
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.consume.unary_requests import one_record, request
from tests.unit.gateway.fakes import refusing


async def test_calls_rotate_their_first_partition(harness: Harness) -> None:
    for _ in range(3):
        await harness.share.Acquire(request(member_id="me", max_records=3))
    requests = harness.leader.of(leader.AcquireRecordsRequest)
    assert [[part.partition for part in one.partitions] for one in requests] == [[0, 1], [1, 0], [0, 1]]
    assert {(one.member_id, one.max_records, one.acquire_mode) for one in requests} == {("me", 3, 1)}


@pytest.mark.parametrize("code", [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
async def test_state_that_may_be_missing_is_initialised_again(harness: Harness, code: ErrorCode) -> None:
    harness.leader.answer = one_record
    await harness.share.Acquire(request())
    harness.leader.answer = refusing(code)
    before = len(harness.coordinator.heartbeats)

    async def initialised() -> None:
        await eventually(lambda: len(harness.coordinator.heartbeats) > before)
        harness.leader.answer = one_record

    got, _ = await asyncio.gather(harness.share.Acquire(request(max_wait_ms=5_000)), initialised())
    assert [record.value for record in got.records] == [b"value"]


async def test_other_errors_do_not_initialise_the_state_again(harness: Harness) -> None:
    """Each needless join or leave would assign the partitions of the group again."""
    harness.leader.answer = one_record
    await harness.share.Acquire(request())
    await eventually(lambda: harness.coordinator.epochs() == [0, -1])
    harness.leader.answer = refusing(ErrorCode.OFFSET_NOT_AVAILABLE)
    before = len(harness.leader.requests)

    async def succeed_on_retry() -> None:
        await eventually(lambda: len(harness.leader.requests) > before + 1)
        harness.leader.answer = one_record

    got, _ = await asyncio.gather(harness.share.Acquire(request(max_wait_ms=5_000)), succeed_on_retry())
    assert [record.value for record in got.records] == [b"value"]
    assert harness.coordinator.epochs() == [0, -1]


async def test_final_error_is_returned_to_the_caller(harness: Harness) -> None:
    harness.leader.answer = refusing(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await harness.share.Acquire(request())
    assert from_rpc_error(failure.value).code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_state_is_initialised_once_by_a_temporary_member(harness: Harness) -> None:
    harness.leader.answer = one_record
    await asyncio.gather(*(harness.share.Acquire(request()) for _ in range(3)))
    await eventually(lambda: harness.coordinator.epochs() == [0, -1])
    await harness.share.Acquire(request())
    assert harness.coordinator.epochs() == [0, -1]
    joined = harness.coordinator.heartbeats[0]
    assert list(joined.subscribed_topic_names.names) == ["flights"]


async def test_ensure_waits_until_the_state_exists(harness: Harness) -> None:
    harness.coordinator.partitions = []
    call = asyncio.ensure_future(harness.share.Acquire(request()))
    await eventually(lambda: len(harness.coordinator.heartbeats) > 2)
    assert not harness.leader.requests
    harness.coordinator.partitions = [0]
    assert not (await call).records
    await eventually(lambda: harness.coordinator.epochs()[-1] == -1)


async def test_ensure_waits_until_the_deadline_of_each_caller(harness: Harness) -> None:
    harness.coordinator.partitions = []
    hasty = asyncio.ensure_future(harness.share.Acquire(request(), timeout=0.3))
    await eventually(lambda: harness.coordinator.heartbeats)
    patient = asyncio.ensure_future(harness.share.Acquire(request(member_id="me"), timeout=20))
    await asyncio.wait([hasty])
    seen = len(harness.coordinator.heartbeats)
    await eventually(lambda: len(harness.coordinator.heartbeats) > seen)
    assert not [one for one in harness.leader.of(leader.AcquireRecordsRequest) if one.member_id == "me"]
    harness.coordinator.partitions = [0]
    assert not (await patient).records
    assert harness.coordinator.epochs().count(0) == 1
    with contextlib.suppress(grpc.aio.AioRpcError):
        await hasty


async def test_stop_waits_until_the_temporary_member_left(harness: Harness) -> None:
    harness.coordinator.partitions = []
    with contextlib.suppress(grpc.aio.AioRpcError):
        await harness.share.Acquire(request(), timeout=1.0)
    assert harness.coordinator.epochs()[-1] != -1
    stopping = asyncio.ensure_future(harness.gateway.stop())
    await asyncio.wait([stopping], timeout=0.1)
    harness.coordinator.partitions = [0]
    await stopping
    assert harness.coordinator.epochs()[-1] == -1


async def test_full_group_is_an_error_of_the_call(harness: Harness) -> None:
    harness.coordinator.refusals = [KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)]
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await harness.share.Acquire(request())
    assert from_rpc_error(failure.value).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (await harness.share.Acquire(request())).member_id  # the next call retries


OTHERS: Final = [Topic(f"id-{number}", f"topic-{number:03}", 1) for number in range(250)]


async def test_one_member_initialises_many_topics(harness: Harness) -> None:
    """A member for each topic would make the coordinator assign the whole group as often."""
    coordinator = harness.coordinator
    coordinator.ids = {topic.name: topic.topic_id for topic in OTHERS}
    acquire = TopicAcquire(harness.gateway)
    await acquire.ensure("group", [(topic, ()) for topic in OTHERS], Deadline(10))
    joins = [list(one.subscribed_topic_names.names) for one in coordinator.heartbeats if not one.member_epoch]
    assert sorted(map(len, joins)) == [50, 100, 100]
    assert sorted(name for names in joins for name in names) == [topic.name for topic in OTHERS]
    await acquire.ensure("group", [(OTHERS[0], ())], Deadline(10))
    assert coordinator.epochs().count(0) == 3, "the results are cached"


async def test_ready_topic_does_not_wait_for_others_of_its_member(harness: Harness) -> None:
    coordinator, (ready, late, *_) = harness.coordinator, OTHERS
    coordinator.ids = {ready.name: ready.topic_id}
    acquire = TopicAcquire(harness.gateway)
    both = asyncio.ensure_future(acquire.ensure("group", [(ready, ()), (late, ())], Deadline(10)))
    await eventually(lambda: coordinator.heartbeats)
    await acquire.ensure("group", [(ready, ())], Deadline(10))
    assert not both.done()
    await eventually(lambda: len(coordinator.heartbeats) > 1)
    assert list(coordinator.heartbeats[1].subscribed_topic_names.names) == [late.name]
    coordinator.ids[late.name] = late.topic_id
    await both
    assert len(acquire._initializer._done) == 2
    assert coordinator.epochs().count(0) == 1


async def test_failure_of_a_member_is_the_error_of_all_its_topics(harness: Harness) -> None:
    harness.coordinator.refusals = [KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)]
    acquire, (first, second, *_) = TopicAcquire(harness.gateway), OTHERS
    calls = [acquire.ensure("group", [(first, ()), (second, ())], Deadline(10)) for _ in range(2)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(one, KafkaError) and one.code for one in results] == [
        ErrorCode.GROUP_MAX_SIZE_REACHED
    ] * 2
