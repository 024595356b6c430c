"""Calls to a leader in another process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, cast

import pytest

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AcquiredRange, TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.leader_calls.messages import (
    acknowledge_request,
    acknowledge_response,
    acquire_request,
    acquire_response,
    await_request,
    letters_request,
    partition_keys,
    produce_request,
    produce_response,
)
from sharebroker_server.leader_calls.remote import (
    GRACE,
    UNREAD_MESSAGES,
    WATCH_GRACE,
    WATCH_SECONDS,
    RemoteLeader,
    RemoteWatch,
)
from sharebroker_server.leader_calls.values import (
    AcknowledgeCall,
    AckPart,
    AckResult,
    AcquireCall,
    AcquireResult,
    AppendCall,
    AppendPart,
    AppendResult,
    DeliverInput,
    DeliverOpen,
    LettersCall,
    LettersResult,
)
from tests.testkit.waiting import eventually

PARTS = [TopicIdPartition("t", 1), TopicIdPartition("t", 2)]
ACQUIRED = AcquireResult("t", 1, records=b"r", acquired=(AcquiredRange(0, 9, 1, 7, 12.5),))
APPENDED = AppendResult("t", 1, base_offset=5, last_offset=7, log_append_time=-1, log_start_offset=0)


class Stub:
    """A leader in another process: records requests and their timeouts."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, float]] = []
        self.fails = 0
        self.awaits: list[tuple[pb.AwaitRecordsRequest, float]] = []
        self.replies: asyncio.Queue[bool | KafkaError] = asyncio.Queue()
        self.cancelled = 0
        self.delivered: list[pb.DeliverRequest] = []
        self.responses: asyncio.Queue[pb.DeliverResponse] = asyncio.Queue()
        self.reads = asyncio.Event()
        self.reads.set()

    async def AcquireRecords(self, request: pb.AcquireRecordsRequest, *, timeout: float) -> Any:
        self.requests.append((request, timeout))
        return pb.AcquireRecordsResponse(partitions=acquire_response([ACQUIRED]))

    async def AcknowledgeRecords(self, request: pb.AcknowledgeRecordsRequest, *, timeout: float) -> Any:
        self.requests.append((request, timeout))
        return pb.AcknowledgeRecordsResponse(partitions=acknowledge_response([AckResult("t", 1)]))

    async def Produce(self, request: pb.ProduceRequest, *, timeout: float) -> Any:
        self.requests.append((request, timeout))
        if len(self.requests) == self.fails:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "gone")
        return pb.ProduceResponse(partitions=produce_response([APPENDED]))

    async def AppendDeadLetters(self, request: pb.AppendDeadLettersRequest, *, timeout: float) -> Any:
        self.requests.append((request, timeout))
        return pb.AppendDeadLettersResponse(appended=1)

    async def AwaitRecords(self, request: pb.AwaitRecordsRequest, timeout: float) -> pb.AwaitRecordsResponse:
        self.awaits.append((request, timeout))
        try:
            reply = await self.replies.get()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(reply, KafkaError):
            raise reply
        return pb.AwaitRecordsResponse(changed=reply)

    async def Deliver(
        self, requests: AsyncIterator[pb.DeliverRequest]
    ) -> AsyncGenerator[pb.DeliverResponse, None]:
        reader = asyncio.create_task(self._read(requests))
        try:
            while True:
                yield await self.responses.get()
        finally:
            reader.cancel()

    async def _read(self, requests: AsyncIterator[pb.DeliverRequest]) -> None:
        await self.reads.wait()
        async for request in requests:
            self.delivered.append(request)

    async def watch(self) -> RemoteWatch:
        return await RemoteLeader(cast("Any", self)).watch("g", PARTS)


async def test_acquire_timeout_exceeds_the_wait_of_the_fetch() -> None:
    stub = Stub()
    leader = RemoteLeader(cast("Any", stub))
    fetch = AcquireCall("g", "m", [PARTS[0]], 0.5, 10)
    results: Sequence[object] = await leader.acquire(fetch)
    assert results == [ACQUIRED]
    ((request, timeout),) = stub.requests
    assert request == acquire_request(fetch)
    assert timeout == pytest.approx(0.5 + GRACE)


async def test_acknowledge_and_append_use_the_timeout_of_the_caller() -> None:
    stub = Stub()
    leader = RemoteLeader(cast("Any", stub))
    acknowledge = AcknowledgeCall("g", "m", [AckPart("t", 1, [])])
    assert await leader.acknowledge(acknowledge, 3.0) == [AckResult("t", 1)]
    append = AppendCall([AppendPart("t", 1, b"batch")])
    assert await leader.append(append, 2.0) == [APPENDED]
    letters = LettersCall("t", 1, "g", "s", 2, 1, 1, 7, b"batch", (5,), ((5, 5),))
    assert await leader.append_letters(letters, 1.0) == LettersResult(appended=1)
    assert stub.requests == [
        (acknowledge_request(acknowledge), 3.0),
        (produce_request(append), 2.0),
        (letters_request(letters), 1.0),
    ]


async def test_records_larger_than_a_message_are_sent_in_several_requests() -> None:
    stub = Stub()
    leader = RemoteLeader(cast("Any", stub))
    parts = [AppendPart("t", number, bytes(5 << 20)) for number in range(3)]
    assert await leader.append(AppendCall(parts, "tx"), 2.0) == [APPENDED] * 3
    assert [request for request, _ in stub.requests] == [
        produce_request(AppendCall([part], "tx")) for part in parts
    ]


async def test_parts_before_a_failed_request_stay_appended() -> None:
    stub = Stub()
    leader = RemoteLeader(cast("Any", stub))
    append = AppendCall([AppendPart("t", number, bytes(8 << 20)) for number in (1, 2)])
    stub.fails = 2
    appended, failed = await leader.append(append, 2.0)
    assert appended == APPENDED
    assert failed == AppendResult("t", 2, ErrorCode.REQUEST_TIMED_OUT, "gone")
    stub.requests, stub.fails = [], 1
    with pytest.raises(KafkaError, match="gone"):
        await leader.append(append, 2.0)


async def test_stream_opens_with_its_first_message() -> None:
    stub = Stub()
    stream = RemoteLeader(cast("Any", stub)).deliver(DeliverOpen("g", "m"))
    outputs = stream.outputs()
    first = asyncio.ensure_future(anext(outputs))
    await stream.send(DeliverInput(frozenset(PARTS)))
    await stream.send(DeliverInput(credit=5))
    await eventually(lambda: len(stub.delivered) == 2)
    assert [request.HasField("open") for request in stub.delivered] == [True, False]
    assert partition_keys(stub.delivered[0].partitions.partitions) == PARTS
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await outputs.aclose()


async def test_acknowledgements_without_result_are_unconfirmed() -> None:
    stub = Stub()
    stream = RemoteLeader(cast("Any", stub)).deliver(DeliverOpen("g", "m"))
    acks = [delivery.Acknowledgement(id=number) for number in (3, 1, 2)]
    await stream.send(DeliverInput(acknowledgements=acks))
    stub.responses.put_nowait(pb.DeliverResponse(results=[delivery.AcknowledgementResult(id=1)]))
    outputs = stream.outputs()
    assert [result.id for result in (await anext(outputs)).results] == [1]
    assert stream.unanswered() == [2, 3]
    await outputs.aclose()


async def test_close_unblocks_a_sender() -> None:
    stub = Stub()
    stub.reads.clear()
    stream = RemoteLeader(cast("Any", stub)).deliver(DeliverOpen("g", "m"))
    for _ in range(UNREAD_MESSAGES):
        await stream.send(DeliverInput(credit=1))
    blocked = asyncio.ensure_future(stream.send(DeliverInput(credit=1)))
    await asyncio.sleep(0)
    assert not blocked.done()
    stream.close()
    await asyncio.wait_for(blocked, 5.0)


async def test_close_ends_the_requests_of_the_stream() -> None:
    stub = Stub()
    stream = RemoteLeader(cast("Any", stub)).deliver(DeliverOpen("g", "m"))
    await stream.send(DeliverInput(frozenset(PARTS)))
    requests = stream._requests()
    assert (await anext(requests)).open.member_id == "m"
    waiting = asyncio.ensure_future(anext(requests, None))
    await asyncio.sleep(0)
    stream.close()
    assert await asyncio.wait_for(waiting, 5.0) is None


async def test_watch_repeats_while_the_leader_has_no_records() -> None:
    stub = Stub()
    watch = await stub.watch()
    stub.replies.put_nowait(False)
    await eventually(lambda: len(stub.awaits) == 2)
    assert watch.active
    request, timeout = stub.awaits[0]
    assert (request.group_id, partition_keys(request.partitions)) == ("g", PARTS)
    assert timeout == WATCH_SECONDS + WATCH_GRACE
    assert request == await_request("g", PARTS, WATCH_SECONDS)
    stub.replies.put_nowait(True)
    assert await watch.changes(10)
    assert (watch.active, len(stub.awaits), stub.cancelled) == (False, 2, 0)


async def test_watch_ends_when_its_leader_fails() -> None:
    stub = Stub()
    watch = await stub.watch()
    stub.replies.put_nowait(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert await watch.changes(10)


async def test_watch_that_ended_cancels_its_call() -> None:
    stub = Stub()
    watch = await stub.watch()
    await eventually(lambda: stub.awaits)
    watch.end()
    watch.end()
    await eventually(lambda: stub.cancelled == 1)
    assert await watch.changes(10)
