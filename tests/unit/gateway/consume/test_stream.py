"""A Consume stream: its messages, its end."""

from __future__ import annotations

import grpc
import pytest

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.rpc.errors import wire
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.consume.requests import (
    ack,
    assignment,
    consuming,
    own_membership,
    refusal,
    stream_of,
    subscribe,
)
from tests.unit.gateway.fakes import TOPIC


async def test_the_length_of_locks_is_forwarded_and_reported(harness: Harness) -> None:
    first = own_membership(0, credit=1)
    first.subscribe.lock_ms = 7_200_000
    async with consuming(harness, first) as call:
        assert (await call.read()).subscribed.acquisition_lock_timeout_ms == 7_200_000
        stream = await stream_of(harness.leader)
        await eventually(lambda: stream.requests)
        assert stream.requests[0].open.lock_ms == 7_200_000


@pytest.mark.parametrize("lock_ms", [-1, 1, 999, 43_200_001])
async def test_lock_lengths_out_of_bounds_end_the_stream(harness: Harness, lock_ms: int) -> None:
    first = own_membership(0)
    first.subscribe.lock_ms = lock_ms
    text = f"subscribe.lock_ms is {lock_ms}; 1000 to 43200000 is allowed"
    with pytest.raises(grpc.aio.AioRpcError, match=text) as refused:
        async with consuming(harness, first) as call:
            await call.read()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_durable_locks_need_the_membership_of_the_client(harness: Harness) -> None:
    first = subscribe(topics=["flights"], durable_locks=True)
    with pytest.raises(grpc.aio.AioRpcError, match="Durable locks need the client's own membership"):
        async with consuming(harness, first) as call:
            await call.read()


@pytest.mark.parametrize("moved", [False, True])
async def test_a_stream_with_durable_locks_ends_when_a_leader_changes(harness: Harness, moved: bool) -> None:
    first = own_membership(0, credit=1)
    first.subscribe.durable_locks = True
    async with consuming(harness, first) as call:
        await call.read()
        stream = await stream_of(harness.leader)
        assert stream.requests[0].open.durable_locks
        stream.deliver(0, 0, 1)
        assert (await call.read()).deliveries
        if moved:
            problem = leader.DeliverResponse.Problem(
                topic_id=TOPIC.topic_id, error_code=wire(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            )
            stream.out.put_nowait(leader.DeliverResponse(problems=[problem]))
        else:
            stream.out.put_nowait(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "gone"))
        assert (await refusal(call)).code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_records_results_and_lost_locks_are_forwarded(harness: Harness) -> None:
    async with consuming(harness, own_membership(0, 1, credit=10)) as call:
        reported = await call.read()
        assert (reported.subscribed.member_id, reported.subscribed.acquisition_lock_timeout_ms) == (
            "me",
            30_000,
        )
        stream = await stream_of(harness.leader)
        await eventually(lambda: stream.credit == 10)
        opening = stream.requests[0].open
        assert (opening.group_id, opening.member_id, stream.partitions) == ("group", "me", [0, 1])

        stream.deliver(1, 100, 104)
        (received,) = (await call.read()).deliveries
        assert (received.topic, received.partition, received.record_batches) == ("flights", 1, b"batch")
        assert (received.acquired[0].first_offset, received.acquired[0].last_offset) == (100, 104)

        await call.write(pb.ConsumeRequest(credit=5, acknowledgements=[ack(1, 1), ack(2, 1)]))
        await eventually(lambda: stream.acknowledged == [1, 2])
        assert stream.requests[-1].credit == 5
        results = [(1, ErrorCode.NONE), (2, ErrorCode.INVALID_RECORD_STATE)]
        stream.out.put_nowait(
            leader.DeliverResponse(
                results=[
                    delivery.AcknowledgementResult(id=number, error_code=wire(code))
                    for number, code in results
                ],
                lock_lost=[delivery.LockLost(topic_id=TOPIC.topic_id, partition=1, lock_token=7)],
            )
        )
        response = await call.read()
        assert [(result.id, result.error_code) for result in response.results] == results
        assert [lost.lock_token for lost in response.lock_lost] == [7]


async def test_new_assignment_replaces_the_old_one(harness: Harness) -> None:
    async with consuming(harness, own_membership(0)) as call:
        stream = await stream_of(harness.leader)
        await call.write(pb.ConsumeRequest(assignment=assignment(1), credit=3))
        await eventually(lambda: stream.partitions == [1])
        await call.write(pb.ConsumeRequest(assignment=assignment()))
        await eventually(lambda: stream.partitions == [] and stream.credit == 0)  # its credit was withdrawn
        await call.write(pb.ConsumeRequest(assignment=assignment(0, 1)))
        await eventually(lambda: stream.partitions == [0, 1] and stream.credit == 3)
        assert len(harness.leader.streams) == 1


async def test_last_message_gets_its_response_before_the_stream_ends(harness: Harness) -> None:
    async with consuming(harness, own_membership(0)) as call:
        await call.read()
        stream = await stream_of(harness.leader)
        await call.write(pb.ConsumeRequest(acknowledgements=[ack(1)]))
        stream.out.put_nowait(leader.DeliverResponse(results=[delivery.AcknowledgementResult(id=1)]))
        await call.done_writing()
        assert [result.id for result in (await call.read()).results] == [1]
        assert await call.read() is grpc.aio.EOF
        assert stream.ended


FIRST = [
    (pb.ConsumeRequest(credit=1), "subscribe"),
    (pb.ConsumeRequest(subscribe=pb.ConsumeRequest.Subscribe(topics=["t"])), "subscribe.group_id"),
    (subscribe(), "subscribe.topics"),
    (subscribe(member_id="x" * 37), "subscribe.member_id"),
    (subscribe(topics=["flights"], batch_size=-1), "subscribe.batch_size"),
    (subscribe(topics=["flights"], rack_id=""), "subscribe.rack_id"),
]


@pytest.mark.parametrize(("first", "field"), FIRST)
async def test_invalid_first_message_is_rejected(
    harness: Harness, first: pb.ConsumeRequest, field: str
) -> None:
    async with consuming(harness, first) as call:
        error = await refusal(call)
        assert error.code is ErrorCode.INVALID_REQUEST
        assert [violation.field for violation in error.violations] == [field]


async def test_stream_without_a_message_is_rejected(harness: Harness) -> None:
    call = harness.share.Consume()
    await call.done_writing()
    assert (await refusal(call)).code is ErrorCode.INVALID_REQUEST


LATER = [
    (subscribe(member_id="me"), "subscribe"),
    (pb.ConsumeRequest(credit=-1), "credit"),
]


@pytest.mark.parametrize(("later", "field"), LATER)
async def test_invalid_message_ends_the_stream(
    harness: Harness, later: pb.ConsumeRequest, field: str
) -> None:
    async with consuming(harness, own_membership(0)) as call:
        await call.read()
        await call.write(later)
        assert [violation.field for violation in (await refusal(call)).violations] == [field]
        await eventually(lambda: all(stream.closed for stream in harness.leader.streams))


async def test_gateway_stop_ends_its_streams_in_order(harness: Harness) -> None:
    async with consuming(harness, subscribe(topics=["flights"])) as call:
        await call.read()
        stream = await stream_of(harness.leader)
        await harness.gateway.stop()
        assert stream.closed
        assert harness.coordinator.epochs()[-1] == -1
        error = await refusal(call)
        assert (error.code, error.retriable) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, True)
