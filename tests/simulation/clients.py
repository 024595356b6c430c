"""Producers and members: they use the public calls and record requests and responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from random import Random
from typing import Any, Final

import grpc

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceStub
from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceStub
from sharebroker_protocol.gateway.v1.share_pb2_grpc import ShareServiceStub
from sharebroker_protocol.rpc_status import from_rpc_error
from tests.simulation.history import History
from tests.simulation.plan import Temper
from tests.simulation.process import Surroundings
from tests.testkit.checker.events import (
    Applied,
    CallBegan,
    CallEnded,
    Delivered,
    Published,
    Requested,
    Share,
    Verdict,
)
from tests.testkit.simulator.outside import EPOCH

_CALL: Final = 3.0
"""Timeout of a call, in seconds."""

_TRIES: Final = 1000
"""Attempts of an administrator: all faults end long before the last."""

MOST_AT_ONCE: Final = 4
"""Maximum number of records that a producer publishes in one call."""

DELAY_MS: Final = 1_500
"""The delay of a delayed release: longer than a fail-over sometimes takes."""

LATER: Final = "later-"
"""The start of the values of records that every member delays by DELAY_MS at their first delivery."""

WAIT_MS: Final = 1000

ACKNOWLEDGE_TYPES: Final = {
    Verdict.ACCEPT: delivery.ACKNOWLEDGE_TYPE_ACCEPT,
    Verdict.RELEASE: delivery.ACKNOWLEDGE_TYPE_RELEASE,
    Verdict.RETURN: delivery.ACKNOWLEDGE_TYPE_RELEASE,
    Verdict.REJECT: delivery.ACKNOWLEDGE_TYPE_REJECT,
    Verdict.RENEW: delivery.ACKNOWLEDGE_TYPE_RENEW,
}


class Client:
    """Calls any of the gateways; `random` chooses."""

    def __init__(self, around: Surroundings, addresses: Sequence[str], random: Random) -> None:
        self.history: History = around.history
        self.random = random
        self.time = around.loop.time  # of no process: without drift
        self._network = around.network
        self._addresses = addresses
        self._stubs: dict[tuple[type, str], Any] = {}
        self.outcome = ""
        """The outcome of the last call."""

    def gateway(self) -> str:
        """Returns one of the gateways."""
        return self.random.choice(self._addresses)

    def stub(self, kind: type, address: str = "") -> Any:
        """Returns a stub for a gateway, by default a random one."""
        address = address or self.gateway()
        if (kind, address) not in self._stubs:
            self._stubs[kind, address] = kind(self._network.dial(address))
        return self._stubs[kind, address]

    async def call(self, stub: type, method: str, request: Any, at: str = "", timeout: float = _CALL) -> Any:
        """Returns the response; None after a failure."""
        number = len(self.history.events)
        self.history.add(CallBegan(self.time(), number, method, self.time() + timeout))
        response, outcome = None, "given up"
        try:
            response = await getattr(self.stub(stub, at), method)(request, timeout=timeout)
            outcome = "answered"
        except grpc.aio.AioRpcError as failure:
            outcome = str(from_rpc_error(failure))
        finally:
            self.outcome = outcome
            self.history.add(CallEnded(self.time(), number, outcome))
        return response

    async def admin(self, method: str, request: Any) -> Any:
        """Makes an administrator's call and repeats it until it succeeds. Raises TimeoutError, which is a
        defect.
        """
        for _ in range(_TRIES):
            if (response := await self.call(AdminServiceStub, method, request)) is not None:
                return response
            await asyncio.sleep(0.1)
        raise TimeoutError(f"{method}: {self.outcome}")


class Producer:
    """Publishes numbered records, `pace` times a second."""

    def __init__(self, client: Client, name: str, topic: str, pace: float) -> None:
        self._pace = pace
        self._client = client
        self._name = name
        self._topic = topic
        self._published = 0

    async def run(self, until: float) -> None:
        """Publishes a few at a time; unconfirmed records are not published again."""
        client = self._client
        while (at := client.time() + client.random.expovariate(self._pace)) < until:
            await asyncio.sleep(at - client.time())
            await self.publish()

    async def publish(self, records: int = 0, *, prefix: str = "", patient: bool = False) -> None:
        """Publishes this many records (0: a few); if `patient`, until they are confirmed."""
        client = self._client
        request = produce.PublishRequest(topic=self._topic)
        for _ in range(records or client.random.randint(1, MOST_AT_ONCE)):
            request.records.add(text=f"{prefix}{self._name}-{self._published}")
            self._published += 1
        while (response := await client.call(ProduceServiceStub, "Publish", request)) is None:
            if not patient:
                return
            await asyncio.sleep(0.1)
        at, topic = client.time(), self._topic
        for record, position in zip(request.records, response.positions, strict=True):
            client.history.add(Published(at, topic, position.partition, position.offset, record.text))


class Consumer:
    """A member of a group that acquires and acknowledges with single calls."""

    def __init__(self, client: Client, group: str, topic: str, member: str, temper: Temper) -> None:
        self._temper = list(temper), list(temper.values())
        self._client = client
        self.group = group
        self._topic = topic
        self.member = member
        self.steady = False
        """Whether it accepts every record at once."""
        self.rejects = False
        """Whether it rejects every record."""

    async def run(self) -> None:
        """Consumes until it is cancelled."""
        client = self._client
        while True:
            most = 20 if self.steady else client.random.choice((1, 3, 6, 20))
            request = share.AcquireRequest(
                group_id=self.group,
                topics=[self._topic],
                max_records=most,
                max_wait_ms=WAIT_MS,
                member_id=self.member,
            )
            response = await client.call(ShareServiceStub, "Acquire", request)
            records = list(response.records) if response is not None else []
            for record in records:
                client.history.add(self._delivered(record))
            if records:
                await self._decide(records)
            elif response is None:
                await asyncio.sleep(0.05)

    async def _decide(self, records: Sequence[share.ShareRecord]) -> None:
        random = self._client.random
        if not self.steady and random.random() < 0.3:
            await asyncio.sleep(random.uniform(0.0, 3.0))
        moods = [(record, self._verdict(record)) for record in records]
        decisions = [(record, verdict) for record, verdict in moods if verdict is not None]
        if self.steady or random.random() < 0.2:
            await self._acknowledge_all(decisions)
        else:
            for decision in decisions:
                await self._acknowledge_all([decision])

    async def _acknowledge_all(self, decisions: Sequence[tuple[share.ShareRecord, Verdict]]) -> None:
        """Acknowledges by one call; renewed records are accepted by another call after it."""
        if decisions:
            await self._acknowledge(decisions)
        renewed = [(record, Verdict.ACCEPT) for record, verdict in decisions if verdict is Verdict.RENEW]
        if renewed:
            await self._acknowledge(renewed)

    async def _acknowledge(self, decisions: Sequence[tuple[share.ShareRecord, Verdict]]) -> None:
        client = self._client
        asked = [self._ask(record, verdict) for record, verdict in decisions]
        request = share.AcknowledgeRequest(
            group_id=self.group,
            member_id=self.member,
            acknowledgements=[
                share.AcknowledgeRequest.Decision(
                    topic=record.topic,
                    partition=record.partition,
                    offset=record.offset,
                    lock_token=record.lock_token,
                    type=ACKNOWLEDGE_TYPES[verdict],
                    delay_ms=delay_of(record, verdict),
                )
                for record, verdict in decisions
            ],
        )
        response = await client.call(ShareServiceStub, "Acknowledge", request)
        for ask, result in zip(asked, response.results if response else (), strict=False):
            if not result.error_code:
                deadline = result.lock_deadline_ms / 1000 - EPOCH if result.lock_deadline_ms else 0.0
                client.history.add(Applied(client.time(), ask, deadline))

    def _verdict(self, record: share.ShareRecord) -> Verdict | None:
        first_of_later = record.delivery_count == 1 and record.value.startswith(LATER.encode())
        return Verdict.RELEASE if self.steady and first_of_later else self._mood()

    def _mood(self) -> Verdict | None:
        [mood] = self._client.random.choices(*self._temper)
        if self.rejects:
            return Verdict.REJECT
        return Verdict.ACCEPT if self.steady else mood

    def _ask(self, record: share.ShareRecord, verdict: Verdict) -> int:
        where = self._share(record)
        delay_ms = delay_of(record, verdict)
        delay = None if delay_ms is None else delay_ms / 1000
        return self._asked(where, record.offset, record.lock_token, verdict, delay=delay)

    def _asked(
        self,
        where: Share,
        offset: int,
        token: int,
        verdict: Verdict,
        *,
        by_token: bool = True,
        delay: float | None = None,
    ) -> int:
        client = self._client
        number = len(client.history.events)
        client.history.add(Requested(client.time(), number, where, offset, token, verdict, by_token, delay))
        return number

    def _share(self, record: share.ShareRecord) -> Share:
        return Share(self.group, record.topic, record.partition)

    def _delivered(self, record: share.ShareRecord, *, streamed: bool = False) -> Delivered:
        return Delivered(
            self._client.time(),
            self._share(record),
            record.offset,
            record.value.decode(),
            self.member,
            record.lock_token,
            record.delivery_count,
            record.lock_deadline_ms / 1000 - EPOCH,
            streamed,
        )


class StreamConsumer(Consumer):
    """A member with a Consume stream; it opens another when that breaks."""

    async def run(self) -> None:
        """Consumes until it is cancelled."""
        client = self._client
        while True:
            outgoing: asyncio.Queue[share.ConsumeRequest] = asyncio.Queue()
            outgoing.put_nowait(self._subscription())
            call = client.stub(ShareServiceStub).Consume(sent(outgoing))
            try:
                async for response in call:
                    self._take(response, outgoing)
            except grpc.aio.AioRpcError as failure:
                client.history.log(f"the stream of {self.member} ends: {from_rpc_error(failure)}")
            finally:
                call.cancel()
            await asyncio.sleep(0.1)

    def _subscription(self) -> share.ConsumeRequest:
        request = share.ConsumeRequest(credit=self._client.random.randint(1, 8))
        request.subscribe.group_id, request.subscribe.member_id = self.group, self.member
        request.subscribe.topics.append(self._topic)
        request.subscribe.decode = True
        return request

    def _take(self, response: share.ConsumeResponse, outgoing: asyncio.Queue[share.ConsumeRequest]) -> None:
        client = self._client
        for record in response.records:
            client.history.add(self._delivered(record, streamed=True))
            verdict = self._verdict(record)
            request = share.ConsumeRequest(credit=1)
            if verdict is not None:
                request.acknowledgements.append(self._acknowledgement(record, verdict))
            outgoing.put_nowait(request)
            if verdict is Verdict.RENEW:
                accept = self._acknowledgement(record, Verdict.ACCEPT)
                outgoing.put_nowait(share.ConsumeRequest(acknowledgements=[accept]))
        for result in response.results:
            if not result.error_code:
                deadline = result.lock_deadline_ms / 1000 - EPOCH if result.lock_deadline_ms else 0.0
                client.history.add(Applied(client.time(), result.id, deadline))

    def _acknowledgement(self, record: share.ShareRecord, verdict: Verdict) -> delivery.Acknowledgement:
        return delivery.Acknowledgement(
            id=self._ask(record, verdict),
            topic_id=record.topic_id,
            partition=record.partition,
            first_offset=record.offset,
            lock_token=record.lock_token,
            type=ACKNOWLEDGE_TYPES[verdict],
            delay_ms=delay_of(record, verdict),
        )


def delay_of(record: share.ShareRecord, verdict: Verdict) -> int | None:
    """The delay of a release: every third record waits, another third explicitly does not."""
    if verdict is not Verdict.RELEASE:
        return None
    return DELAY_MS if record.value.startswith(LATER.encode()) else (None, 0, DELAY_MS)[record.offset % 3]


async def sent(outgoing: asyncio.Queue[share.ConsumeRequest]) -> AsyncIterator[share.ConsumeRequest]:
    """The messages of a stream, as they are put into a queue."""
    while True:
        yield await outgoing.get()
