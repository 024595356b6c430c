"""Calls to a leader in another process: one stream per consumer, unary calls for the rest (decision 0065)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.leader_calls import messages
from sharebroker_server.leader_calls.values import (
    AcknowledgeCall,
    AckResult,
    AcquireCall,
    AcquireResult,
    AppendCall,
    AppendPart,
    AppendResult,
    DeliverInput,
    DeliverOpen,
    DeliverOutput,
    LettersCall,
    LettersResult,
    ReconcileCall,
    ReconcileResult,
)
from sharebroker_server.leader_calls.watches import BaseWatch

if TYPE_CHECKING:
    from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
    from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub as Stub,
    )

GRACE: Final = 5.0
"""Seconds that a fetch may take beyond its wait: for loading, and for the network."""

WATCH_SECONDS: Final = 5.0
"""Duration of one AwaitRecords call. A leader without records replies then; a frozen one does not."""

WATCH_GRACE: Final = 1.0
"""Seconds after `WATCH_SECONDS` at which a missing reply ends the watch."""

UNREAD_MESSAGES: Final = 16
"""Limit of messages that wait for a leader; beyond it, the gateway stops reading from the client."""


class RemoteLeader:
    """`LeaderCalls` over a stub."""

    __slots__ = ("_stub",)

    def __init__(self, stub: Stub) -> None:
        self._stub = stub

    async def acquire(self, call: AcquireCall) -> Sequence[AcquireResult]:
        """Sends AcquireRecords."""
        response = await self._stub.AcquireRecords(
            messages.acquire_request(call), timeout=call.max_wait + GRACE
        )
        return messages.acquire_results(response.partitions)

    async def acknowledge(self, call: AcknowledgeCall, timeout: float) -> Sequence[AckResult]:
        """Sends AcknowledgeRecords."""
        response = await self._stub.AcknowledgeRecords(messages.acknowledge_request(call), timeout=timeout)
        return messages.ack_results(response.partitions)

    async def reconcile(self, call: ReconcileCall, timeout: float) -> Sequence[ReconcileResult]:
        """Sends ReconcileRecords."""
        response = await self._stub.ReconcileRecords(messages.reconcile_request(call), timeout=timeout)
        return messages.reconcile_results(response.partitions)

    async def append(self, call: AppendCall, timeout: float | None) -> Sequence[AppendResult]:
        """Sends Produce, several times if the records are larger than one gRPC message should be.

        Raises the error of the first request. The error of a later one is the result of its parts:
        the caller must not send the earlier parts again.
        """
        results: list[AppendResult] = []
        for parts in messages.split_by_size(call.parts):
            try:
                request = messages.produce_request(call._replace(parts=parts))
                response = await self._stub.Produce(request, timeout=timeout)
                results += messages.append_results(response.partitions)
            except KafkaError as error:
                if not results:
                    raise
                results += [_not_appended(part, error) for part in parts]
        return results

    async def append_letters(self, call: LettersCall, timeout: float) -> LettersResult:
        """Sends AppendDeadLetters."""
        response = await self._stub.AppendDeadLetters(messages.letters_request(call), timeout=timeout)
        return messages.letters_result(response)

    def deliver(self, opening: DeliverOpen) -> RemoteDeliverStream:
        """Opens a Deliver stream with its first message."""
        return RemoteDeliverStream(self._stub, opening)

    async def watch(self, group_id: str, partitions: Sequence[TopicIdPartition]) -> RemoteWatch:
        """Starts a watch; if there are records, it ends as soon as the leader replies."""
        return RemoteWatch(self._stub, group_id, partitions)


def _not_appended(part: AppendPart, error: KafkaError) -> AppendResult:
    """Returns the result of a part whose request failed, of unknown outcome without a response."""
    code = error.code
    if code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        code = ErrorCode.REQUEST_TIMED_OUT
    return AppendResult(part.topic_id, part.partition, code, error.message)


class RemoteDeliverStream:
    """A Deliver stream. Messages to the leader wait in a bounded queue.

    It stores the ids of acknowledgements until their results arrive, so that the gateway can report them as
    lost when the leader's process dies.
    """

    __slots__ = ("_finished", "_opening", "_queue", "_stub", "_unanswered")

    def __init__(self, stub: Stub, opening: DeliverOpen) -> None:
        self._stub = stub
        self._opening: pb.DeliverRequest.Open | None = messages.open_message(opening)
        self._queue: asyncio.Queue[pb.DeliverRequest | None] = asyncio.Queue(UNREAD_MESSAGES)
        self._unanswered: dict[int, None] = {}
        self._finished = False

    async def send(self, message: DeliverInput) -> None:
        """Queues a message; waits while the queue is full."""
        request = messages.deliver_request(message)
        if self._opening is not None:
            request.open.CopyFrom(self._opening)
            self._opening = None
        for ack in message.acknowledgements:
            self._unanswered[ack.id] = None
        await self._queue.put(request)

    def finish(self) -> None:
        """Half-closes the stream behind the queued messages."""
        self._finished = True
        if self._queue.empty():
            self._queue.put_nowait(None)

    async def outputs(self) -> AsyncGenerator[DeliverOutput, None]:
        """The leader's messages. Raises KafkaError when the stream breaks."""
        stream: AsyncGenerator[pb.DeliverResponse, None]
        stream = self._stub.Deliver(self._requests())  # type: ignore[assignment]  # RemoteStub's generator
        async with aclosing(stream) as responses:
            async for response in responses:
                for result in response.results:
                    self._unanswered.pop(result.id, None)
                yield messages.deliver_output(response)

    def close(self) -> None:
        """Drops the queued messages, which unblocks `send`; closing `outputs` ends the call."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self.finish()

    def unanswered(self) -> Sequence[int]:
        """Ids of acknowledgements without result."""
        return sorted(self._unanswered)

    async def _requests(self) -> AsyncIterator[pb.DeliverRequest]:
        while not (self._finished and self._queue.empty()):
            request = await self._queue.get()
            if request is not None:
                yield request


class RemoteWatch(BaseWatch):
    """Repeats AwaitRecords until the leader replies that there may be records, or fails."""

    __slots__ = ("_task",)

    def __init__(self, stub: Stub, group_id: str, partitions: Sequence[TopicIdPartition]) -> None:
        super().__init__()
        request = messages.await_request(group_id, partitions, WATCH_SECONDS)
        self._task = asyncio.create_task(_await_records(stub, request), name="records watch")
        self._task.add_done_callback(lambda _: self.end())

    def _stop(self) -> None:
        self._task.cancel()


async def _await_records(stub: Stub, request: pb.AwaitRecordsRequest) -> None:
    with suppress(KafkaError):  # the next fetch returns the error
        while not (await stub.AwaitRecords(request, timeout=WATCH_SECONDS + WATCH_GRACE)).changed:
            pass
