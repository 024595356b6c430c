"""Acquisition from any partition of topics, and initialisation of share state without a membership."""

from __future__ import annotations

import asyncio
import contextlib

import grpc
import pytest

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.rpc_status import from_rpc_error
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.consume.topic_acquire import TopicAcquire
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.consume.unary_requests import one_record, request
from tests.unit.gateway.fakes import TOPIC, refusing


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


async def test_few_topics_are_initialised_at_the_same_time(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a member, and the size of a group is limited."""
    acquire = TopicAcquire(harness.gateway)
    running, most, done = 0, 0, 0

    async def ensure(*_: object) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        done += 1

    monkeypatch.setattr(acquire._initializer, "ensure", ensure)
    await acquire.ensure("group", [(TOPIC, ())] * 25, Deadline(10))
    assert (most, done) == (10, 25)
