"""The leaders of a Consume stream: credit, routing, failures."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import pytest

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway import unread_messages
from sharebroker_server.gateway.consume.leader_fan_in import LeaderStream, lost_results
from sharebroker_server.gateway.unread_messages import UnreadMessages
from sharebroker_server.leader_calls.remote import RemoteLeader
from sharebroker_server.leader_calls.values import DeliverInput, DeliverOpen
from sharebroker_server.routing.router import LeaderPeer
from sharebroker_server.rpc.errors import wire
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.consume.requests import ack, assignment, consuming, own_membership, refusal, stream_of
from tests.unit.gateway.fakes import TOPIC, Stream, member
from tests.unit.record_log.batches import batch

EVERYTHING = 2**63 - 1


async def test_several_leaders_share_credit_and_receive_their_own_acks(harness: Harness) -> None:
    other, there, _ = await harness.remote_leader(2)
    harness.ownership.give(1, there)
    async with consuming(harness, own_membership(0, 1, credit=10)) as call:
        await call.read()
        here_stream, there_stream = await stream_of(harness.leader), await stream_of(other)
        assert (here_stream.partitions, there_stream.partitions) == ([0], [1])
        await eventually(lambda: (here_stream.credit, there_stream.credit) == (5, 5))
        there_stream.deliver(1, 0, 4)
        assert (await call.read()).deliveries[0].partition == 1
        await call.write(pb.ConsumeRequest(credit=5, acknowledgements=[ack(1, 0), ack(2, 1), ack(3, 9)]))
        await eventually(lambda: here_stream.acknowledged == [1] and there_stream.acknowledged == [2])
        (unknown,) = (await call.read()).results
        assert (unknown.id, unknown.error_code) == (3, ErrorCode.INVALID_RECORD_STATE)
        await eventually(lambda: here_stream.credit + there_stream.credit == 15)


async def test_withdrawn_credit_leaves_every_leader(harness: Harness) -> None:
    other, there, _ = await harness.remote_leader(2)
    harness.ownership.give(1, there)
    async with consuming(harness, own_membership(0, 1, credit=10)) as call:
        await call.read()
        streams = [await stream_of(harness.leader), await stream_of(other)]
        await eventually(lambda: [stream.credit for stream in streams] == [5, 5])
        await call.write(pb.ConsumeRequest(credit=-10))
        await eventually(lambda: [stream.credit for stream in streams] == [0, 0])
        await call.write(pb.ConsumeRequest(credit=-1))
        assert [violation.field for violation in (await refusal(call)).violations] == ["credit"]


async def test_rest_unseen_is_sent_to_every_leader(harness: Harness) -> None:
    other, there, _ = await harness.remote_leader(2)
    async with consuming(harness, own_membership(0, 1)) as call:
        here_stream = await stream_of(harness.leader)
        await call.write(pb.ConsumeRequest(rest_unseen=True))
        await eventually(lambda: here_stream.requests[-1].rest_unseen)
        await call.write(pb.ConsumeRequest(rest_unseen=True, assignment=assignment(0)))
        await eventually(lambda: [request.rest_unseen for request in here_stream.requests].count(True) == 2)
        harness.ownership.give(1, there)
        await call.write(pb.ConsumeRequest(assignment=assignment(0, 1)))
        there_stream = await stream_of(other)
        await call.write(pb.ConsumeRequest(rest_unseen=True, acknowledgements=[ack(1)]))
        await eventually(lambda: there_stream.requests[-1].rest_unseen and here_stream.acknowledged == [1])
        assert here_stream.requests[-1].rest_unseen


@pytest.mark.parametrize("pauses", [True, False])
async def test_next_message_of_the_client_resumes_a_paused_leader(harness: Harness, pauses: bool) -> None:
    other, there, _ = await harness.remote_leader(2)
    first = own_membership(0, 1)
    first.subscribe.pause_on_lock_lost = pauses
    async with consuming(harness, first) as call:
        await call.read()
        stream = await stream_of(harness.leader)
        assert stream.requests[0].open.pause_on_lock_lost is pauses
        for leaders in (1, 2):
            stream.out.put_nowait(leader.DeliverResponse(lock_lost=[delivery.LockLost(partition=0)]))
            assert (await call.read()).lock_lost
            await call.write(pb.ConsumeRequest())
            await call.write(pb.ConsumeRequest(acknowledgements=[ack(leaders)]))
            await eventually(lambda: len(stream.acknowledged) == leaders)  # noqa: B023  # it is waited for
            assert sum(request.resume for request in stream.requests) == leaders * pauses
            harness.ownership.give(1, there)
            await call.write(pb.ConsumeRequest(assignment=assignment(0)))
            await call.write(pb.ConsumeRequest(assignment=assignment(0, 1)))
            await stream_of(other)
        assert not any(request.resume for request in other.streams[0].requests)


async def test_single_credit_moves_to_the_leader_with_records(harness: Harness) -> None:
    other, there, _ = await harness.remote_leader(2)
    harness.ownership.give(1, there)
    async with consuming(harness, own_membership(0, 1, credit=1)) as call:
        await call.read()
        streams = [await stream_of(harness.leader), await stream_of(other)]
        for turn in range(4):
            await eventually(partial(has_grants, streams[turn % 2], turn // 2 + 1))
            # A leader may receive its grant before the other one receives its revocation.
            await eventually(lambda: sum(stream.credit for stream in streams) <= 1)


def has_grants(stream: Stream, number: int) -> bool:
    """Returns whether a leader received credit at least so often; a later revocation does not matter."""
    return sum(request.credit > 0 for request in stream.requests) >= number


async def test_failed_leader_loses_its_locks_and_is_replaced(harness: Harness) -> None:
    other, there, server = await harness.remote_leader(2)
    harness.ownership.give(0, there)
    async with consuming(harness, own_membership(0, credit=10)) as call:
        await call.read()
        stream = await stream_of(other)
        stream.deliver(0, 0, 3)
        assert (await call.read()).deliveries
        await call.write(pb.ConsumeRequest(acknowledgements=[ack(1), ack(2)]))
        await eventually(lambda: stream.acknowledged == [1, 2])
        stream.out.put_nowait(leader.DeliverResponse(results=[delivery.AcknowledgementResult(id=1)]))
        assert [result.id for result in (await call.read()).results] == [1]

        harness.ownership.owners.clear()
        await server.stop(0.0)
        ended = await call.read()
        (lost,) = ended.lock_lost
        assert (lost.partition, lost.first_offset, lost.last_offset, lost.lock_token) == (0, 0, EVERYTHING, 0)
        assert [(result.id, result.error_code) for result in ended.results] == [
            (2, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        ]
        taken_over = await stream_of(harness.leader)
        assert taken_over.partitions == [0]
        await eventually(lambda: taken_over.credit == 6)  # the unused credit of the dead leader
        assert any(TOPIC.topic_id in resource for resource in harness.ownership.forgotten)


async def test_moved_partition_is_delivered_by_its_new_leader(harness: Harness) -> None:
    other, there, _ = await harness.remote_leader(2)
    async with consuming(harness, own_membership(0, 1)) as call:
        await call.read()
        stream = await stream_of(harness.leader)
        harness.ownership.give(1, there)
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
        (reported,) = (await call.read()).problems  # the gateway handles the move
        assert (reported.partition, reported.error_code) == (0, ErrorCode.GROUP_ID_NOT_FOUND)
        await eventually(lambda: stream.partitions == [0])
        assert (await stream_of(other)).partitions == [1]


async def test_final_error_of_a_leader_ends_the_stream(harness: Harness) -> None:
    async with consuming(harness, own_membership(0)) as call:
        stream = await stream_of(harness.leader)
        stream.out.put_nowait(KafkaError(ErrorCode.INVALID_REQUEST, "no such group"))
        assert (await refusal(call)).message == "no such group"


async def test_client_that_does_not_read_blocks_its_leader(harness: Harness) -> None:
    big = b"x" * 1_000_000
    async with consuming(harness, own_membership(0, credit=1)) as call:
        stream = await stream_of(harness.leader)
        for offset in range(40):
            stream.deliver(0, offset, offset, big)
        await eventually(lambda: stream.out.qsize() < 40)
        remaining = stream.out.qsize()
        assert remaining > 10  # neither the gateway nor gRPC holds all of it
        received = 0
        while received < 40:
            received += len((await call.read()).deliveries)
        assert stream.out.empty()


async def test_a_stream_that_is_not_read_ends_when_another_needs_its_memory(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread_messages, "GRACE", 0.05)
    harness.gateway.unread = UnreadMessages(4_000_000)
    big = b"x" * 1_000_000
    async with consuming(harness, own_membership(0, credit=9)) as unread:
        stream = await stream_of(harness.leader)
        for offset in range(9):
            stream.deliver(0, offset, offset, big)
        await eventually(lambda: stream.out.qsize() < 7)
        async with consuming(harness, own_membership(0, credit=20)) as call:
            other = await stream_of(harness.leader, 1)
            for offset in range(20):
                other.deliver(0, offset, offset, big)
            received = 0
            while received < 20:
                received += len((await call.read()).deliveries)
            assert (await refusal(unread)).code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
            await eventually(lambda: harness.gateway.streams == 1)
            assert harness.gateway.unread.bytes == 0


@pytest.mark.parametrize("decode", [True, False])
async def test_results_do_not_wait_for_the_memory_of_records(harness: Harness, decode: bool) -> None:
    unread = harness.gateway.unread = UnreadMessages(4_000_000)
    other = unread.stream("other", lambda _error: None)
    await other.reserve(4_000_000)
    first = own_membership(0, credit=9)
    first.subscribe.decode = decode
    async with consuming(harness, first) as call:
        await call.read()
        stream = await stream_of(harness.leader)
        stream.deliver(0, 0, 0, batch(1), results=[7])
        received = await call.read()
        assert [result.id for result in received.results] == [7]
        assert not received.deliveries
        assert not received.records
        await eventually(lambda: unread.waiting == 1)
        other.read(4_000_000)
        received = await call.read()
        assert len(received.deliveries) + len(received.records) == 1
        assert not received.results


def stream() -> LeaderStream:
    stub: Any = None
    peer = LeaderPeer(member(1, "a:1"), stub, cast("Any", RemoteLeader(stub)))
    return LeaderStream(peer, DeliverOpen("g", "m"))


async def test_close_reports_locks_of_all_partitions_that_were_served() -> None:
    one = stream()
    await one.serve(frozenset({TopicIdPartition("t", 0)}))
    await one.serve(frozenset({TopicIdPartition("t", 1)}))
    lost = one.close()
    assert one.finished
    assert [(part.topic_id, part.partition, part.first) for part in lost.lost] == [("t", 0, 0), ("t", 1, 0)]


async def test_close_reports_acknowledgements_without_result() -> None:
    one = stream()
    await one.serve(frozenset({TopicIdPartition("t", 0)}))
    await one.stream.send(DeliverInput(acknowledgements=[delivery.Acknowledgement(id=5)]))
    (result,) = one.close().results
    assert (result.id, result.error_code) == (5, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_lost_results_name_each_acknowledgement() -> None:
    acks = [delivery.Acknowledgement(id=number) for number in (1, 2)]
    assert [result.id for result in lost_results(acks).results] == [1, 2]
