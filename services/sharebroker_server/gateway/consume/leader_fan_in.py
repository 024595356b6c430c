"""The leaders' side of a Consume stream: fans the streams of all leaders in to one queue.

Routing. `assign` sets the partitions; a task binds them to their leaders, opens a stream to each leader and
keeps it for as long as the consumer lives. The task runs again when the assignment changes, when a leader
fails, and when a leader reports that a partition moved. A leader without partitions is drained: its stream
stays, because the consumer may hold its records, but its credit moves to the others.

Credit. `CreditSplit` divides the client's credit over the leaders. A task moves idle credit every
REBALANCE_INTERVAL while there are several leaders.

Failure. When a stream breaks, the consumer receives the lost locks and the results of acknowledgements that
may or may not have been applied. Then routing finds the new leaders. With `durable_locks` the consumer's
stream ends instead, also when a partition moves: the client opens another one and keeps its durable locks.

Back-pressure. A client that does not read fills the queue; then the leaders' messages are not read. A leader
that does not read blocks `forward`; then the client is not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.model import AcquireMode, TopicIdPartition
from sharebroker_server.aio import Tasks, doubling
from sharebroker_server.gateway.clients import moved
from sharebroker_server.gateway.consume.record_decoding import OWN_ID, PORTION_BYTES, portions
from sharebroker_server.gateway.context import CLOSE_TIMEOUT, Gateway
from sharebroker_server.gateway.core.credit import CreditSplit, Grants
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.response_queue import UNSENT_MESSAGES, ResponseQueue
from sharebroker_server.gateway.unread_messages import UnreadOfStream
from sharebroker_server.leader_calls.messages import fill_delivered, fill_results
from sharebroker_server.leader_calls.values import (
    AcquireResult,
    DeliverInput,
    DeliverOpen,
    DeliverOutput,
    Delivery,
    LostRange,
    StreamAckResult,
)
from sharebroker_server.routing.router import LeaderPeer

REBALANCE_INTERVAL: Final = 0.05
"""Interval at which idle credit of a consumer moves to other leaders."""


_FIRST_PORTION: Final = 64 << 10
"""Bytes of decoded records, or one larger record, of the first messages of a stream."""

_FIRST_DELAY: Final = 0.05
_LONGEST_DELAY: Final = 1.0


class LeaderFanIn:
    """Serves one consumer; see the module. `tasks` runs its work and receives its failures."""

    def __init__(
        self,
        gateway: Gateway,
        subscribe: pb.ConsumeRequest.Subscribe,
        key: SessionKey,
        tasks: Tasks,
        unread: UnreadOfStream,
    ) -> None:
        self.queue: ResponseQueue[tuple[pb.ConsumeResponse, int]] = ResponseQueue(UNSENT_MESSAGES)
        """The messages to the client, each with its bytes that `unread` has reserved."""
        self._unread = unread
        self._gateway = gateway
        self._subscribe = subscribe
        self._opening = DeliverOpen(
            key.group_id,
            key.member_id,
            AcquireMode(subscribe.acquire_mode),
            subscribe.batch_size,
            subscribe.pause_on_lock_lost,
            key.principal,
            subscribe.lock_ms / 1000,
            subscribe.durable_locks,
            subscribe.client_id,
        )
        self._tasks = tasks
        self._credit: CreditSplit[LeaderStream] = CreditSplit()
        self._streams: dict[str, LeaderStream] = {}
        self._routes: dict[TopicIdPartition, LeaderStream] = {}
        self._assigned: frozenset[TopicIdPartition] = frozenset()
        self._paused: set[LeaderStream] = set()
        self._reroute = asyncio.Event()
        self._reroute_pauses = doubling(_FIRST_DELAY, _LONGEST_DELAY)
        self._pumps: set[asyncio.Task[None]] = set()
        self._rebalancing = False
        self._routing = tasks.spawn(self._keep_routing())

    def assign(self, partitions: frozenset[TopicIdPartition]) -> None:
        """Replaces the partitions to deliver from; locks of other partitions stay held."""
        self._assigned = partitions
        self._reroute.set()

    @property
    def outstanding(self) -> int:
        """The number of records that the client still accepts; below 0 if it was sent more."""
        return self._credit.outstanding

    async def forward(self, request: pb.ConsumeRequest) -> None:
        """Sends a message's credit and acknowledgements to the leaders; waits while they do not read."""
        credit = dict(self._credit.grant(request.credit)) if request.credit else {}
        acks: Mapping[LeaderStream, Sequence[delivery.Acknowledgement]] = {}
        unknown: list[delivery.Acknowledgement] = []
        if request.acknowledgements:
            acks, unknown = self._acks_by_stream(request.acknowledgements)
        rest_unseen = request.rest_unseen
        all_streams = self._streams.values() if rest_unseen else ()
        messages = {
            stream: DeliverInput(
                credit=credit.get(stream, 0),
                acknowledgements=acks.get(stream, ()),
                rest_unseen=rest_unseen,
                resume=stream in self._paused,
            )
            for stream in dict.fromkeys((*self._paused, *credit, *all_streams, *acks))
        }
        for stream, message in messages.items():
            await self._send(stream, message)
        if unknown:
            await self._put(DeliverOutput([], [_never_delivered(ack) for ack in unknown], [], []))

    async def hold(self) -> None:
        """Withdraws the credit of all leaders until `release`."""
        await self._grant(self._credit.hold())

    async def release(self) -> None:
        """Grants the leaders the client's credit again."""
        await self._grant(self._credit.release())

    async def finish(self) -> None:
        """The client has sent its last message: completes pending acknowledgements, then ends the queue."""
        self._routing.cancel()
        for stream in self._streams.values():
            stream.finish()
        if self._pumps:
            await asyncio.wait(self._pumps, timeout=CLOSE_TIMEOUT)
        await self.queue.end()

    def close(self) -> None:
        """Ends the streams whose task was cancelled before it began."""
        for stream in self._streams.values():
            stream.stream.close()

    # To the leaders

    def _acks_by_stream(
        self, acknowledgements: Sequence[delivery.Acknowledgement]
    ) -> tuple[dict[LeaderStream, Sequence[delivery.Acknowledgement]], list[delivery.Acknowledgement]]:
        if len(self._streams) == 1:
            return dict.fromkeys(self._streams.values(), acknowledgements), []
        acks: dict[LeaderStream, list[delivery.Acknowledgement]] = {}
        unknown = []
        for ack in acknowledgements:
            stream = self._routes.get(TopicIdPartition(ack.topic_id, ack.partition))
            if stream is None:
                unknown.append(ack)
            else:
                acks.setdefault(stream, []).append(ack)
        return dict(acks), unknown

    async def _grant(self, grants: Grants[LeaderStream]) -> None:
        for stream, records in grants:
            await self._send(stream, DeliverInput(credit=records))

    async def _send(self, stream: LeaderStream, message: DeliverInput) -> None:
        if not stream.finished:
            if message.resume:
                self._paused.discard(stream)
            await stream.stream.send(message)
        elif message.acknowledgements:
            await self._put(lost_results(message.acknowledgements))

    # Routing

    async def _keep_routing(self) -> None:
        """Connects to the leaders of the assigned partitions, again whenever either changes."""
        while True:
            await self._reroute.wait()
            self._reroute.clear()
            peers, unled = await self._gateway.leaders.by_leader(sorted(self._assigned))
            for peer, parts in peers:
                stream = self._streams.get(peer.member.owner) or self._open(LeaderStream(peer, self._opening))
                await self._serve(stream, frozenset(parts))
            await self._drain_others({peer.member.owner for peer, _ in peers})
            if unled:
                self._retry_routing()

    def _open(self, stream: LeaderStream) -> LeaderStream:
        self._streams[stream.owner] = stream
        pump = self._tasks.spawn(self._pump(stream))
        self._pumps.add(pump)
        pump.add_done_callback(self._pumps.discard)
        if len(self._streams) > 1 and not self._rebalancing:
            self._tasks.spawn(self._rebalance())
        return stream

    async def _serve(self, stream: LeaderStream, partitions: frozenset[TopicIdPartition]) -> None:
        self._routes.update(dict.fromkeys(partitions, stream))
        if stream.partitions != partitions:
            await stream.serve(partitions)
        await self._grant(self._credit.add(stream))

    async def _drain_others(self, owners: set[str]) -> None:
        for owner, stream in list(self._streams.items()):
            if owner not in owners and stream.partitions:
                await stream.serve(frozenset())
                await self._grant(self._credit.park(stream))

    async def _disconnected(self, stream: LeaderStream) -> None:
        """Reports what a failed leader lost, and looks for the new leaders; or ends with durable locks."""
        if self._subscribe.durable_locks and stream.delivered:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "A leader of the stream failed.")
        del self._streams[stream.owner]
        self._paused.discard(stream)
        for partition in [part for part, route in self._routes.items() if route is stream]:
            del self._routes[partition]
            self._gateway.leaders.forget(partition)
        await self._put(stream.close())
        await self._grant(self._credit.remove(stream))
        self._retry_routing()

    def _retry_routing(self) -> None:
        asyncio.get_running_loop().call_later(next(self._reroute_pauses), self._reroute.set)

    async def _rebalance(self) -> None:
        self._rebalancing = True
        while len(self._streams) > 1:
            await asyncio.sleep(REBALANCE_INTERVAL)
            await self._grant(self._credit.rebalance())
        self._rebalancing = False

    # From the leaders

    async def _pump(self, stream: LeaderStream) -> None:
        """Forwards a leader's messages until its stream ends or breaks."""
        try:
            async with aclosing(stream.stream.outputs()) as outputs:
                async for output in outputs:
                    await self._received(stream, output)
        except KafkaError as error:
            if not error.retriable and error.code is not ErrorCode.UNKNOWN_SERVER_ERROR:
                raise
        if not stream.finished:
            await self._disconnected(stream)

    async def _received(self, stream: LeaderStream, output: DeliverOutput) -> None:
        self._reroute_pauses = doubling(_FIRST_DELAY, _LONGEST_DELAY)
        if output.lost and self._subscribe.pause_on_lock_lost:
            self._paused.add(stream)
        if output.deliveries:
            stream.delivered = True
            self._credit.delivered(stream, _records(output.deliveries))
        if output.problems:
            output = self._without_moved(output)
            if not any(output):
                return
        if self._subscribe.decode:
            await self._put_decoded(stream, output)
        else:
            await self._put(output)

    async def _put(self, output: DeliverOutput) -> None:
        size = sum(len(sent.records) for sent in output.deliveries)
        if size and not self._unread.reserve_now(size):
            rest = output._replace(deliveries=[])
            if any(rest):  # it does not wait for the memory of the records
                await self._put(rest)
            output = DeliverOutput(output.deliveries, [], [], [])
            await self._unread.reserve(size)
        message = pb.ConsumeResponse()
        fill_delivered(message, output)
        await self.queue.put((message, size))

    async def _put_decoded(self, stream: LeaderStream, output: DeliverOutput) -> None:
        """Decodes as much as fits into one message, and more once the client has read earlier messages."""
        message = pb.ConsumeResponse()
        fill_results(
            message, output._replace(results=[result for result in output.results if result.id != OWN_ID])
        )
        sources = [
            (
                AcquireResult(sent.topic_id, sent.partition, records=sent.records, acquired=sent.acquired),
                sent.topic,
            )
            for sent in output.deliveries
        ]
        if not sources:
            await self.queue.put((message, 0))
            return
        decoding = portions(sources, as_text=self._subscribe.as_text, max_bytes=self._portion_bytes)
        async with aclosing(decoding) as decoded:
            rest = True
            while rest:
                reserved = self._portion_bytes()
                if not self._unread.reserve_now(reserved):
                    if message.ListFields():
                        await self.queue.put((message, 0))
                        message = pb.ConsumeResponse()
                    await self._unread.reserve(reserved)
                portion = await anext(decoded)
                self._unread.resize(reserved, portion.size)
                message.records.extend(portion.records)
                if portion.unreadable:
                    self._tasks.spawn(self._acknowledge_unreadable(stream, portion.unreadable))
                await self.queue.put((message, portion.size))
                message, rest = pb.ConsumeResponse(), portion.rest is not None

    def _portion_bytes(self) -> int:
        """The bytes of the next message: few until the client has read as much.

        What gRPC has begun to send stays in memory until the client reads it, or ends the call.
        """
        return min(max(_FIRST_PORTION, self._unread.total_read), PORTION_BYTES)

    async def _acknowledge_unreadable(
        self, stream: LeaderStream, unreadable: list[delivery.Acknowledgement]
    ) -> None:
        """Acknowledges offsets that the client never receives, and grants their credit again."""
        await self._send(stream, DeliverInput(acknowledgements=unreadable))
        offsets = sum(ack.last_offset - ack.first_offset + 1 for ack in unreadable)
        await self._grant(self._credit.grant(offsets))

    def _without_moved(self, output: DeliverOutput) -> DeliverOutput:
        """Looks for the new leaders of partitions that moved; the client receives the other problems."""
        remaining = []
        for problem in output.problems:
            if moved(problem):
                self._gateway.leaders.forget(TopicIdPartition(problem.topic_id, problem.partition))
            else:
                remaining.append(problem)
        if len(remaining) < len(output.problems):
            if self._subscribe.durable_locks:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "A partition of the stream moved.")
            self._retry_routing()
        return output._replace(problems=remaining)


def _records(deliveries: Sequence[Delivery]) -> int:
    return sum(run.last - run.first + 1 for sent in deliveries for run in sent.acquired)


def _never_delivered(ack: delivery.Acknowledgement) -> StreamAckResult:
    return StreamAckResult(
        ack.id,
        ack.first_offset,
        ack.last_offset if ack.HasField("last_offset") else ack.first_offset,
        ErrorCode.INVALID_RECORD_STATE,
        "No record of this partition is held by this stream.",
    )


_LAST_OFFSET: Final = 2**63 - 1
_LEADER_FAILED: Final = "The leader failed; it may or may not have applied this."


class LeaderStream:
    """Adds to a `DeliverStream` the partitions that it serves now, and those that it ever served."""

    __slots__ = ("_served", "delivered", "finished", "owner", "partitions", "stream")

    def __init__(self, peer: LeaderPeer, opening: DeliverOpen) -> None:
        self.owner = peer.member.owner
        self.stream = peer.calls.deliver(opening)
        self.partitions: frozenset[TopicIdPartition] = frozenset()
        self.delivered = self.finished = False
        self._served: set[TopicIdPartition] = set()

    async def serve(self, partitions: frozenset[TopicIdPartition]) -> None:
        """Replaces the partitions to deliver from. The first call opens the stream."""
        self.partitions = partitions
        self._served |= partitions
        await self.stream.send(DeliverInput(partitions))

    def finish(self) -> None:
        """Half-closes the stream; the leader completes what is pending and ends it."""
        self.finished = True
        self.stream.finish()

    def close(self) -> DeliverOutput:
        """Ends the stream after its leader failed; returns the lost locks and the results to report."""
        self.finished = True
        self.stream.close()
        lost = [LostRange(*part, 0, _LAST_OFFSET) for part in sorted(self._served)]
        results = [_lost_result(ack_id) for ack_id in self.stream.unanswered()]
        return DeliverOutput([], results, lost, [])


def lost_results(acks: Iterable[delivery.Acknowledgement]) -> DeliverOutput:
    """The results of acknowledgements whose leader has failed."""
    return DeliverOutput([], [_lost_result(ack.id) for ack in acks], [], [])


def _lost_result(ack_id: int) -> StreamAckResult:
    return StreamAckResult(ack_id, 0, _LAST_OFFSET, ErrorCode.NOT_LEADER_OR_FOLLOWER, _LEADER_FAILED)
