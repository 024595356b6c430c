"""Initialisation of share state without a membership."""

from __future__ import annotations

import asyncio
import contextlib

import grpc
import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.rpc_status import from_rpc_error
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.consume.unary_requests import one_record, request


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
    assert not harness.leader.asked
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
    assert not [asked for asked in harness.leader.of(leader.AcquireRecordsRequest) if asked.member_id == "me"]
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
    assert (await harness.share.Acquire(request())).member_id  # the next one tries again
