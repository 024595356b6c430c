"""The leaders' side of a Consume stream: a Deliver stream to each leader, credit split among them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from typing import Final

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.aio.backoff import doubling
from sharebroker_server.aio.tasks import Tasks
from sharebroker_server.gateway.clients.leaders import moved
from sharebroker_server.gateway.config import CLOSE_TIMEOUT, REBALANCE_INTERVAL, UNSENT_MESSAGES
from sharebroker_server.gateway.consume.decode import OWN_ID, decoded
from sharebroker_server.gateway.consume.leader_stream import LeaderStream, lost_results
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.credit import CreditSplit, Grants
from sharebroker_server.gateway.send_queue import Outbox
from sharebroker_server.rpc.partition_errors import wire
from sharebroker_server.share_calls.messages import acquired_values
from sharebroker_server.share_calls.values import Acquisition

_FIRST_DELAY: Final = 0.05
_LONGEST_DELAY: Final = 1.0


class Deliveries:
    """Connects to whoever leads the assigned partitions; what they send goes to the outbox.

    `tasks` runs its work and hears of failures. Everything is on the loop's thread.
    """

    def __init__(
        self, gateway: Gateway, subscribe: pb.ConsumeRequest.Subscribe, member_id: str, tasks: Tasks
    ) -> None:
        self.outbox: Outbox[pb.ConsumeResponse] = Outbox(UNSENT_MESSAGES)
        self._gateway = gateway
        self._subscribe = subscribe
        self._member_id = member_id
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
        self._routing = tasks.spawn(self._route_forever())

    def assign(self, partitions: frozenset[TopicIdPartition]) -> None:
        """Deliver from these partitions from here on; what is held of others stays held."""
        self._assigned = partitions
        self._reroute.set()

    @property
    def outstanding(self) -> int:
        """How many records the client still takes; below 0 when it was sent more."""
        return self._credit.outstanding

    async def take(self, request: pb.ConsumeRequest) -> None:
        """Pass a message's credit and acknowledgements on; waits while leaders do not read."""
        grants = self._credit.grant(request.credit) if request.credit else []
        if len(self._streams) == 1:
            await self._hand_on(request, grants)
        else:
            await self._split(request, grants)

    async def finish(self) -> None:
        """The client has sent its last message: the leaders answer what is under way, then all ends."""
        self._routing.cancel()
        for stream in self._streams.values():
            stream.finish()
        if self._pumps:
            await asyncio.wait(self._pumps, timeout=CLOSE_TIMEOUT)
        await self.outbox.end()

    # To the leaders

    async def _hand_on(self, request: pb.ConsumeRequest, grants: Grants[LeaderStream]) -> None:
        """To the only leader, all at once: fields 3 to 5 of both messages are the same."""
        if request.HasField("assignment") or request.HasField("subscribe"):
            request = pb.ConsumeRequest(
                acknowledgements=request.acknowledgements, rest_unseen=request.rest_unseen
            )
        message = leader.DeliverRequest.FromString(request.SerializeToString())
        message.credit = grants[0][1] if grants else 0
        (stream,) = self._streams.values()
        message.resume = stream in self._paused
        if message.ByteSize():
            await self._send(stream, message)

    async def _split(self, request: pb.ConsumeRequest, grants: Grants[LeaderStream]) -> None:
        messages = {stream: leader.DeliverRequest(resume=True) for stream in self._paused}
        for stream, records in grants:
            messages.setdefault(stream, leader.DeliverRequest()).credit = records
        if request.rest_unseen:
            for stream in self._streams.values():
                messages.setdefault(stream, leader.DeliverRequest()).rest_unseen = True
        unknown = []
        for ack in request.acknowledgements:
            route = self._routes.get(TopicIdPartition(ack.topic_id, ack.partition))
            if route is None:
                unknown.append(ack)
            else:
                messages.setdefault(route, leader.DeliverRequest()).acknowledgements.append(ack)
        for stream, message in messages.items():
            await self._send(stream, message)
        if unknown:
            await self.outbox.put(pb.ConsumeResponse(results=[_never_delivered(ack) for ack in unknown]))

    async def _grant(self, grants: Grants[LeaderStream]) -> None:
        for stream, records in grants:
            await self._send(stream, leader.DeliverRequest(credit=records))

    async def _send(self, stream: LeaderStream, message: leader.DeliverRequest) -> None:
        if not stream.finished:
            if message.resume:
                self._paused.discard(stream)
            await stream.send(message)
        elif message.acknowledgements:
            results = lost_results(ack.id for ack in message.acknowledgements)
            await self.outbox.put(pb.ConsumeResponse(results=results))

    # Who leads what

    async def _route_forever(self) -> None:
        """Connect to the leaders of what is assigned, again whenever either changes."""
        while True:
            await self._reroute.wait()
            self._reroute.clear()
            parts = [delivery.TopicPartition(topic_id=t, partition=p) for t, p in sorted(self._assigned)]
            peers, lost = await self._gateway.leaders.by_leader(parts)
            for peer, some in peers:
                owner = peer.member.owner
                stream = self._streams.get(owner) or self._open(owner, LeaderStream(peer, self._opening()))
                await self._serve(stream, frozenset(TopicIdPartition(p.topic_id, p.partition) for p in some))
            await self._park_all_but({peer.member.owner for peer, _ in peers})
            if lost:
                self._retry_routing()

    def _open(self, owner: str, stream: LeaderStream) -> LeaderStream:
        self._streams[owner] = stream
        pump = self._tasks.spawn(self._pump(owner, stream))
        self._pumps.add(pump)
        pump.add_done_callback(self._pumps.discard)
        if len(self._streams) > 1 and not self._rebalancing:
            self._tasks.spawn(self._rebalance())
        return stream

    def _opening(self) -> leader.DeliverRequest.Open:
        return leader.DeliverRequest.Open(
            group_id=self._subscribe.group_id,
            member_id=self._member_id,
            acquire_mode=self._subscribe.acquire_mode,
            batch_size=self._subscribe.batch_size,
            pause_on_lock_lost=self._subscribe.pause_on_lock_lost,
        )

    async def _serve(self, stream: LeaderStream, partitions: frozenset[TopicIdPartition]) -> None:
        self._routes.update(dict.fromkeys(partitions, stream))
        if stream.partitions != partitions:
            await stream.serve(partitions)
        await self._grant(self._credit.add(stream))

    async def _park_all_but(self, owners: set[str]) -> None:
        for owner, stream in list(self._streams.items()):
            if owner not in owners and stream.partitions:
                await stream.serve(frozenset())
                await self._grant(self._credit.park(stream))

    async def _gone(self, owner: str, stream: LeaderStream) -> None:
        """Its process ended, or the way to it broke: the consumer hears what is lost, others take over."""
        del self._streams[owner]
        self._paused.discard(stream)
        for partition in [part for part, route in self._routes.items() if route is stream]:
            del self._routes[partition]
            self._gateway.leaders.forget(partition)
        await self.outbox.put(pb.ConsumeResponse.FromString(stream.close().SerializeToString()))
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

    async def _pump(self, owner: str, stream: LeaderStream) -> None:
        """Hand a leader's messages on until its stream ends; a leader that is gone is replaced."""
        try:
            async with aclosing(stream.responses()) as responses:
                async for response in responses:
                    await self._received(stream, response)
        except KafkaError as error:
            if not error.retriable and error.code is not ErrorCode.UNKNOWN_SERVER_ERROR:
                raise
        if not stream.finished:
            await self._gone(owner, stream)

    async def _received(self, stream: LeaderStream, response: leader.DeliverResponse) -> None:
        self._reroute_pauses = doubling(_FIRST_DELAY, _LONGEST_DELAY)
        stream.answered(response)
        if response.lock_lost and self._subscribe.pause_on_lock_lost:
            self._paused.add(stream)
        if response.deliveries:
            self._credit.delivered(stream, _records(response.deliveries))
        if self._subscribe.decode:
            message = self._decoded(stream, response)
        else:  # fields 1 to 4 of both messages are the same
            message = pb.ConsumeResponse.FromString(response.SerializeToString())
        if not message.problems or self._note_problems(message):
            await self.outbox.put(message)

    def _decoded(self, stream: LeaderStream, response: leader.DeliverResponse) -> pb.ConsumeResponse:
        message = pb.ConsumeResponse(
            results=[result for result in response.results if result.id != OWN_ID],
            lock_lost=response.lock_lost,
            problems=[
                pb.ConsumeResponse.Problem.FromString(p.SerializeToString()) for p in response.problems
            ],
        )
        for source in response.deliveries:
            records, unreadable = decoded(_acquisition(source), source.topic, as_text=self._subscribe.as_text)
            message.records.extend(records)
            if unreadable:
                self._tasks.spawn(self._give_back(stream, unreadable))
        return message

    async def _give_back(self, stream: LeaderStream, unreadable: list[delivery.Acknowledgement]) -> None:
        """The client never sees these offsets, so the gateway decides on them and renews their credit."""
        await self._send(stream, leader.DeliverRequest(acknowledgements=unreadable))
        offsets = sum(ack.last_offset - ack.first_offset + 1 for ack in unreadable)
        await self._grant(self._credit.grant(offsets))

    def _note_problems(self, message: pb.ConsumeResponse) -> bool:
        """Look for the new leaders of partitions that moved; whether there is anything left to tell."""
        problems = list(message.problems)
        gone = [problem for problem in problems if moved(problem)]
        for problem in gone:
            self._gateway.leaders.forget(TopicIdPartition(problem.topic_id, problem.partition))
        if gone:
            self._retry_routing()
            del message.problems[:]
            message.problems.extend(problem for problem in problems if not moved(problem))
        return message.ByteSize() > 0


def _records(deliveries: Iterable[delivery.Delivery]) -> int:
    return sum(run.last_offset - run.first_offset + 1 for sent in deliveries for run in sent.acquired)


def _never_delivered(ack: delivery.Acknowledgement) -> delivery.AcknowledgementResult:
    return delivery.AcknowledgementResult(
        id=ack.id,
        error_code=wire(ErrorCode.INVALID_RECORD_STATE),
        error_message="No record of this partition is held by this stream.",
        first_offset=ack.first_offset,
        last_offset=ack.last_offset if ack.HasField("last_offset") else ack.first_offset,
    )


def _acquisition(source: delivery.Delivery) -> Acquisition:
    acquired = acquired_values(source.acquired)
    return Acquisition(source.topic_id, source.partition, records=source.record_batches, acquired=acquired)
