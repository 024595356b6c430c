"""Consume streams: what is handed on, to whom, and what happens when leaders come and go."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import grpc
import pytest

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.records.batch_builder import BatchBuilder
from sharebroker_protocol.records.compression import CODECS
from sharebroker_protocol.rpc_status import from_rpc_error
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.rpc.partition_errors import wire
from sharebroker_server.testkit.waiting import eventually
from tests.unit.gateway.conftest import Bench
from tests.unit.gateway.fakes import TOPIC, Leader, Stream

EVERYTHING = 2**63 - 1
ACCEPT = delivery.ACKNOWLEDGE_TYPE_ACCEPT


def subscribe(**fields: Any) -> pb.ConsumeRequest:
    return pb.ConsumeRequest(
        subscribe=pb.ConsumeRequest.Subscribe(group_id="group", **fields), credit=fields.pop("credit", 0)
    )


def own_membership(*partitions: int, credit: int = 0) -> pb.ConsumeRequest:
    return pb.ConsumeRequest(
        subscribe=pb.ConsumeRequest.Subscribe(group_id="group", member_id="me"),
        assignment=assignment(*partitions),
        credit=credit,
    )


def assignment(*partitions: int) -> pb.ConsumeRequest.Assignment:
    parts = [delivery.TopicPartition(topic_id=TOPIC.topic_id, partition=index) for index in partitions]
    return pb.ConsumeRequest.Assignment(partitions=parts)


def ack(number: int, partition: int = 0) -> delivery.Acknowledgement:
    return delivery.Acknowledgement(
        id=number,
        topic_id=TOPIC.topic_id,
        partition=partition,
        first_offset=number,
        type=ACCEPT,
        lock_token=7,
    )


@asynccontextmanager
async def consuming(bench: Bench, first: pb.ConsumeRequest) -> AsyncIterator[Any]:
    call = bench.share.Consume()
    await call.write(first)
    yield call
    call.cancel()


async def stream_of(fake: Leader, number: int = 0) -> Stream:
    await eventually(lambda: len(fake.streams) > number and fake.streams[number].requests)
    return fake.streams[number]


async def test_records_results_and_lost_locks_pass_through(bench: Bench) -> None:
    async with consuming(bench, own_membership(0, 1, credit=10)) as call:
        told = await call.read()
        assert (told.subscribed.member_id, told.subscribed.acquisition_lock_timeout_ms) == ("me", 30_000)
        stream = await stream_of(bench.leader)
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
        answer = await call.read()
        assert [(result.id, result.error_code) for result in answer.results] == results
        assert [lost.lock_token for lost in answer.lock_lost] == [7]


async def test_the_gateway_runs_the_membership(bench: Bench) -> None:
    first = subscribe(topics=["flights"], client_id="worker")
    async with consuming(bench, first) as call:
        told = (await call.read()).subscribed
        assert len(told.member_id) == 36
        assert [(t.topic_name, list(t.partitions)) for t in told.assignment] == [("flights", [0, 1])]
        assert (await stream_of(bench.leader)).partitions == [0, 1]
        joining = bench.coordinator.heartbeats[0]
        assert (joining.member_epoch, list(joining.subscribed_topic_names.names)) == (0, ["flights"])
        assert (joining.client_id, joining.client_host[:5]) == ("worker", "ipv4:")
    await eventually(lambda: bench.coordinator.epochs()[-1] == -1)
    await eventually(lambda: bench.leader.streams[0].closed)
    async with consuming(bench, subscribe(topics=["flights"], member_id=told.member_id)) as call:
        await call.read()
    heartbeats = bench.coordinator.heartbeats
    again = next(beat for beat in heartbeats if beat.stream_id != joining.stream_id)
    assert again.member_id == joining.member_id
    assert {beat.stream_id for beat in heartbeats if beat.member_epoch <= 0} >= {
        joining.stream_id,
        again.stream_id,
    }


async def test_a_new_assignment_replaces_the_old_one(bench: Bench) -> None:
    async with consuming(bench, own_membership(0)) as call:
        stream = await stream_of(bench.leader)
        await call.write(pb.ConsumeRequest(assignment=assignment(1), credit=3))
        await eventually(lambda: stream.partitions == [1])
        await call.write(pb.ConsumeRequest(assignment=assignment()))
        await eventually(lambda: stream.partitions == [] and stream.credit == 0)  # its credit was taken back
        await call.write(pb.ConsumeRequest(assignment=assignment(0, 1)))
        await eventually(lambda: stream.partitions == [0, 1] and stream.credit == 3)
        assert len(bench.leader.streams) == 1


async def test_the_last_message_of_the_client_is_answered_before_the_stream_ends(bench: Bench) -> None:
    async with consuming(bench, own_membership(0)) as call:
        await call.read()
        stream = await stream_of(bench.leader)
        await call.write(pb.ConsumeRequest(acknowledgements=[ack(1)]))
        stream.out.put_nowait(leader.DeliverResponse(results=[delivery.AcknowledgementResult(id=1)]))
        await call.done_writing()
        assert [result.id for result in (await call.read()).results] == [1]
        assert await call.read() is grpc.aio.EOF
        assert stream.ended


async def test_several_leaders_share_credit_and_get_their_own_acknowledgements(bench: Bench) -> None:
    other, there, _ = await bench.remote_leader(2)
    bench.ownership.give(1, there)
    async with consuming(bench, own_membership(0, 1, credit=10)) as call:
        await call.read()
        here_stream, there_stream = await stream_of(bench.leader), await stream_of(other)
        assert (here_stream.partitions, there_stream.partitions) == ([0], [1])
        await eventually(lambda: (here_stream.credit, there_stream.credit) == (5, 5))
        there_stream.deliver(1, 0, 4)
        assert (await call.read()).deliveries[0].partition == 1
        await call.write(pb.ConsumeRequest(credit=5, acknowledgements=[ack(1, 0), ack(2, 1), ack(3, 9)]))
        await eventually(lambda: here_stream.acknowledged == [1] and there_stream.acknowledged == [2])
        (unknown,) = (await call.read()).results
        assert (unknown.id, unknown.error_code) == (3, ErrorCode.INVALID_RECORD_STATE)
        await eventually(lambda: here_stream.credit + there_stream.credit == 15)


async def test_credit_that_is_taken_back_leaves_every_leader(bench: Bench) -> None:
    other, there, _ = await bench.remote_leader(2)
    bench.ownership.give(1, there)
    async with consuming(bench, own_membership(0, 1, credit=10)) as call:
        await call.read()
        streams = [await stream_of(bench.leader), await stream_of(other)]
        await eventually(lambda: [stream.credit for stream in streams] == [5, 5])
        await call.write(pb.ConsumeRequest(credit=-10))
        await eventually(lambda: [stream.credit for stream in streams] == [0, 0])
        await call.write(pb.ConsumeRequest(credit=-1))
        assert [violation.field for violation in (await refusal(call)).violations] == ["credit"]


async def test_every_leader_hears_that_the_rest_is_unseen(bench: Bench) -> None:
    other, there, _ = await bench.remote_leader(2)
    async with consuming(bench, own_membership(0, 1)) as call:
        here_stream = await stream_of(bench.leader)
        await call.write(pb.ConsumeRequest(rest_unseen=True))
        await eventually(lambda: here_stream.requests[-1].rest_unseen)
        await call.write(pb.ConsumeRequest(rest_unseen=True, assignment=assignment(0)))
        await eventually(lambda: [request.rest_unseen for request in here_stream.requests].count(True) == 2)
        bench.ownership.give(1, there)
        await call.write(pb.ConsumeRequest(assignment=assignment(0, 1)))
        there_stream = await stream_of(other)
        await call.write(pb.ConsumeRequest(rest_unseen=True, acknowledgements=[ack(1)]))
        await eventually(lambda: there_stream.requests[-1].rest_unseen and here_stream.acknowledged == [1])
        assert here_stream.requests[-1].rest_unseen


@pytest.mark.parametrize("asked_for", [True, False])
async def test_the_clients_next_message_ends_a_leaders_pause(bench: Bench, asked_for: bool) -> None:
    other, there, _ = await bench.remote_leader(2)
    first = own_membership(0, 1)
    first.subscribe.pause_on_lock_lost = asked_for
    async with consuming(bench, first) as call:
        await call.read()
        stream = await stream_of(bench.leader)
        assert stream.requests[0].open.pause_on_lock_lost is asked_for
        for leaders in (1, 2):
            stream.out.put_nowait(leader.DeliverResponse(lock_lost=[delivery.LockLost(partition=0)]))
            assert (await call.read()).lock_lost
            await call.write(pb.ConsumeRequest())
            await call.write(pb.ConsumeRequest(acknowledgements=[ack(leaders)]))
            await eventually(lambda: len(stream.acknowledged) == leaders)  # noqa: B023  # it is waited for
            assert sum(request.resume for request in stream.requests) == leaders * asked_for
            bench.ownership.give(1, there)
            await call.write(pb.ConsumeRequest(assignment=assignment(0)))
            await call.write(pb.ConsumeRequest(assignment=assignment(0, 1)))
            await stream_of(other)
        assert not any(request.resume for request in other.streams[0].requests)


async def test_a_single_credit_finds_the_leader_that_has_records(bench: Bench) -> None:
    other, there, _ = await bench.remote_leader(2)
    bench.ownership.give(1, there)
    async with consuming(bench, own_membership(0, 1, credit=1)) as call:
        await call.read()
        streams = [await stream_of(bench.leader), await stream_of(other)]
        for turn in range(4):
            await eventually(partial(has_the_credit, streams[turn % 2]))
            assert sum(stream.credit for stream in streams) <= 1


def has_the_credit(stream: Stream) -> bool:
    return stream.credit == 1


async def test_when_a_leader_dies_its_locks_are_lost_and_the_next_one_takes_over(bench: Bench) -> None:
    other, there, server = await bench.remote_leader(2)
    bench.ownership.give(0, there)
    async with consuming(bench, own_membership(0, credit=10)) as call:
        await call.read()
        stream = await stream_of(other)
        stream.deliver(0, 0, 3)
        assert (await call.read()).deliveries
        await call.write(pb.ConsumeRequest(acknowledgements=[ack(1), ack(2)]))
        await eventually(lambda: stream.acknowledged == [1, 2])
        stream.out.put_nowait(leader.DeliverResponse(results=[delivery.AcknowledgementResult(id=1)]))
        assert [result.id for result in (await call.read()).results] == [1]

        bench.ownership.owners.clear()
        await server.stop(0.0)
        ended = await call.read()
        (lost,) = ended.lock_lost
        assert (lost.partition, lost.first_offset, lost.last_offset, lost.lock_token) == (0, 0, EVERYTHING, 0)
        assert [(result.id, result.error_code) for result in ended.results] == [
            (2, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        ]
        taken_over = await stream_of(bench.leader)
        assert taken_over.partitions == [0]
        await eventually(lambda: taken_over.credit == 6)  # what the dead one did not use
        assert any(TOPIC.topic_id in resource for resource in bench.ownership.forgotten)


async def test_a_partition_that_moved_is_taken_from_its_new_leader(bench: Bench) -> None:
    other, there, _ = await bench.remote_leader(2)
    async with consuming(bench, own_membership(0, 1)) as call:
        await call.read()
        stream = await stream_of(bench.leader)
        bench.ownership.give(1, there)
        problems = [
            leader.DeliverResponse.Problem(
                topic_id=TOPIC.topic_id, partition=1, error_code=wire(ErrorCode(6))
            ),
            leader.DeliverResponse.Problem(
                topic_id=TOPIC.topic_id, partition=0, error_code=wire(ErrorCode(69)), error_message="no"
            ),
        ]
        stream.out.put_nowait(leader.DeliverResponse(problems=problems[:1]))
        stream.out.put_nowait(leader.DeliverResponse(problems=problems))
        (told,) = (await call.read()).problems  # the move is the gateway's affair
        assert (told.partition, told.error_code) == (0, ErrorCode.GROUP_ID_NOT_FOUND)
        await eventually(lambda: stream.partitions == [0])
        assert (await stream_of(other)).partitions == [1]


async def test_decoded_records(bench: Bench) -> None:
    builder = BatchBuilder(CODECS["gzip"], 1000)
    builder.append(1_700_000_000_000, b"N1", b"late", [("carrier", b"UA")])
    builder.append(1_700_000_000_001, None, b"\xff")
    builder.append(1_700_000_000_002, b"N3", None)
    first = own_membership(0, credit=4)
    first.subscribe.decode = first.subscribe.as_text = True
    async with consuming(bench, first) as call:
        await call.read()
        stream = await stream_of(bench.leader)
        stream.deliver(0, 0, 3, builder.build())  # the last offset has no record
        message = await call.read()
        assert [(r.offset, r.WhichOneof("payload"), r.key) for r in message.records] == [
            (0, "text", b"N1"),
            (1, "value", b""),
            (2, None, b"N3"),
        ]
        record = message.records[0]
        assert (record.topic, record.text, record.lock_token, record.delivery_count) == (
            "flights",
            "late",
            7,
            1,
        )
        assert [(header.key, header.value) for header in record.headers] == [("carrier", b"UA")]
        # The gateway decides on the gap itself, and the client never hears of it.
        await eventually(lambda: stream.acknowledged and stream.credit == 5)
        (gap,) = stream.requests[-2].acknowledgements
        assert (gap.first_offset, gap.last_offset, gap.type) == (3, 3, delivery.ACKNOWLEDGE_TYPE_GAP)
        stream.out.put_nowait(
            leader.DeliverResponse(
                results=[delivery.AcknowledgementResult(id=gap.id), delivery.AcknowledgementResult(id=5)]
            )
        )
        assert [result.id for result in (await call.read()).results] == [5]


FIRST = [
    (pb.ConsumeRequest(credit=1), "subscribe"),
    (pb.ConsumeRequest(subscribe=pb.ConsumeRequest.Subscribe(topics=["t"])), "subscribe.group_id"),
    (subscribe(), "subscribe.member_id"),
    (subscribe(member_id="x" * 37), "subscribe.member_id"),
    (subscribe(topics=["flights"], batch_size=-1), "subscribe.batch_size"),
    (subscribe(topics=["flights"], rack_id=""), "subscribe.rack_id"),
]


@pytest.mark.parametrize(("first", "field"), FIRST)
async def test_a_stream_that_opens_wrongly_is_refused(
    bench: Bench, first: pb.ConsumeRequest, field: str
) -> None:
    async with consuming(bench, first) as call:
        error = await refusal(call)
        assert error.code is ErrorCode.INVALID_REQUEST
        assert [violation.field for violation in error.violations] == [field]


async def test_a_stream_without_a_message_is_refused(bench: Bench) -> None:
    call = bench.share.Consume()
    await call.done_writing()
    assert (await refusal(call)).code is ErrorCode.INVALID_REQUEST


LATER = [
    (subscribe(member_id="me"), "subscribe"),
    (pb.ConsumeRequest(credit=-1), "credit"),
]


@pytest.mark.parametrize(("later", "field"), LATER)
async def test_a_wrong_message_ends_the_stream(bench: Bench, later: pb.ConsumeRequest, field: str) -> None:
    async with consuming(bench, own_membership(0)) as call:
        await call.read()
        await call.write(later)
        assert [violation.field for violation in (await refusal(call)).violations] == [field]
        await eventually(lambda: all(stream.closed for stream in bench.leader.streams))


async def test_the_assignment_of_a_membership_that_the_gateway_runs_is_its_own(bench: Bench) -> None:
    async with consuming(bench, subscribe(topics=["flights"])) as call:
        await call.read()
        await call.write(pb.ConsumeRequest(assignment=assignment(0)))
        assert [violation.field for violation in (await refusal(call)).violations] == ["assignment"]


async def test_a_group_that_does_not_take_the_member_ends_the_stream(bench: Bench) -> None:
    bench.coordinator.refusals = [KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)]
    async with consuming(bench, subscribe(topics=["flights"])) as call:
        assert (await refusal(call)).code is ErrorCode.GROUP_MAX_SIZE_REACHED


async def test_a_coordinator_that_moved_is_found_again(bench: Bench) -> None:
    bench.coordinator.refusals = [KafkaError(ErrorCode.NOT_COORDINATOR)] * 2
    async with consuming(bench, subscribe(topics=["flights"])) as call:
        assert (await call.read()).subscribed.member_epoch == 1
        assert [resource[:17] for resource in bench.ownership.forgotten] == ["group-coordinator"] * 2


async def test_a_leader_that_refuses_for_good_ends_the_stream(bench: Bench) -> None:
    async with consuming(bench, own_membership(0)) as call:
        stream = await stream_of(bench.leader)
        stream.out.put_nowait(KafkaError(ErrorCode.INVALID_REQUEST, "no such group"))
        assert (await refusal(call)).message == "no such group"


async def test_a_client_that_does_not_read_holds_its_leader_back(bench: Bench) -> None:
    big = b"x" * 1_000_000
    async with consuming(bench, own_membership(0, credit=1)) as call:
        stream = await stream_of(bench.leader)
        for offset in range(40):
            stream.deliver(0, offset, offset, big)
        await eventually(lambda: stream.out.qsize() < 40)
        left = stream.out.qsize()
        assert left > 10  # neither the gateway nor gRPC holds all of it
        received = 0
        while received < 40:
            received += len((await call.read()).deliveries)
        assert stream.out.empty()


async def test_a_gateway_that_stops_takes_its_streams_down_in_order(bench: Bench) -> None:
    async with consuming(bench, subscribe(topics=["flights"])) as call:
        await call.read()
        stream = await stream_of(bench.leader)
        await bench.gateway.stop()
        assert stream.closed
        assert bench.coordinator.epochs()[-1] == -1
        error = await refusal(call)
        assert (error.code, error.retriable) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, True)


async def refusal(call: Any) -> KafkaError:
    """The error that ends a call; what comes before it does not matter."""

    async def to_the_end() -> None:
        while await call.read() is not grpc.aio.EOF:
            pass

    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await to_the_end()
    return from_rpc_error(ended.value)
