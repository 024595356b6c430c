"""Members whose work takes longer than a fail-over: their durable locks must survive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import grpc
from typing_extensions import override

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.gateway.v1.share_pb2_grpc import ShareServiceStub
from sharebroker_protocol.rpc_status import from_rpc_error
from tests.simulation.clients import ACKNOWLEDGE_TYPES, WAIT_MS, Consumer, delay_of, sent
from tests.simulation.process import LOCK
from tests.simulation.sessions import HeartbeatMember, Part
from tests.testkit.checker.events import Applied, Delivered, Held, Share, Verdict

JOB_LOCK: Final = 15.0
"""Seconds: longer than a fail-over and the calls after it."""

DURABLE_LOCK: Final = 5.0
"""The shortest durable lock of a run, in seconds."""

_LONGEST_JOB: Final = 5.0
_TRIES: Final = 3
_RELEASED: Final = 1 / 2
"""The share of records that a member releases or returns."""

_PAUSE: Final = 0.2


class LongWorker(Consumer):
    """Acquires single records with durable locks, works for seconds, and accepts them."""

    hesitates = False

    @override
    async def run(self) -> None:
        """Works until it is cancelled, or consumes like other members once it is steady."""
        client = self._client
        while not self.steady:
            request = share.AcquireRequest(
                group_id=self.group,
                topics=[self._topic],
                max_records=1,
                max_wait_ms=WAIT_MS,
                member_id=self.member,
                lock_ms=round(JOB_LOCK * 1000),
            )
            response = await client.call(ShareServiceStub, "Acquire", request)
            if response is None:
                await asyncio.sleep(_PAUSE)
            for record in response.records if response is not None else ():
                client.history.add(self._delivered(record))
                await self._work(record)
        await super().run()

    async def _work(self, record: share.ShareRecord) -> None:
        """Renews the lock, works, and accepts the record.

        If it `hesitates`, it first tries to release some records, and keeps those whose release fails; else
        it returns some.
        """
        client = self._client
        if not self.steady and client.random.random() < _RELEASED:
            if not self.hesitates:
                await self._return(record)
                return
            if await self._acknowledged(record, Verdict.RELEASE) is not False:
                return
        began = client.time()
        if await self._try(record, Verdict.RENEW):
            where, until = Share(self.group, record.topic, record.partition), began + JOB_LOCK - LOCK
            client.history.add(Held(client.time(), where, record.offset, record.lock_token, until))
        await asyncio.sleep(client.random.uniform(0.0, _LONGEST_JOB))
        await self._try(record, Verdict.ACCEPT)

    async def _return(self, record: share.ShareRecord) -> None:
        """Releases the record without blame, and later renews its lock, which has to be refused."""
        if await self._try(record, Verdict.RENEW) and await self._try(record, Verdict.RETURN):
            await asyncio.sleep(self._client.random.uniform(0.0, _LONGEST_JOB))
            await self._try(record, Verdict.RENEW)

    async def _try(self, record: share.ShareRecord, verdict: Verdict) -> bool:
        """Returns whether the acknowledgement was applied; repeats calls without a response."""
        for _ in range(_TRIES):
            applied = await self._acknowledged(record, verdict)
            if applied is not None:
                return applied
            await asyncio.sleep(_PAUSE)
        return False

    async def _acknowledged(self, record: share.ShareRecord, verdict: Verdict) -> bool | None:
        client, ask = self._client, self._ask(record, verdict)
        request = share.AcknowledgeRequest(group_id=self.group, member_id=self.member)
        request.acknowledgements.add(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            lock_token=record.lock_token,
            type=ACKNOWLEDGE_TYPES[verdict],
            lock_ms=round(JOB_LOCK * 1000) if verdict is Verdict.RENEW else 0,
            delay_ms=delay_of(record, verdict),
            blameless=verdict is Verdict.RETURN,
        )
        response: Any = await client.call(ShareServiceStub, "Acknowledge", request)
        if response is None:
            return None
        [result] = response.results
        if not result.error_code:
            client.history.add(Applied(client.time(), ask))
        return not result.error_code

    @override
    def _delivered(self, record: share.ShareRecord, *, streamed: bool = False) -> Delivered:
        """Reports the deadline that a lock of the group's length would have."""
        seen = super()._delivered(record, streamed=streamed)
        if self.steady and not streamed:
            return seen
        return replace(seen, deadline=seen.deadline - JOB_LOCK + LOCK)


@dataclass(slots=True)
class OpenStream:
    """A `Consume` stream; `results` receive whether acknowledgements were applied, None if it is unknown."""

    outgoing: asyncio.Queue[share.ConsumeRequest]
    assigned: frozenset[Part]
    results: dict[int, asyncio.Future[bool | None]] = field(default_factory=dict)
    jobs: set[asyncio.Task[None]] = field(default_factory=set)
    has_ended: bool = False

    def end(self) -> None:
        """Ends the results that did not arrive."""
        self.has_ended = True
        for result in self.results.values():
            if not result.done():
                result.set_result(None)


class StreamWorker(LongWorker, HeartbeatMember):
    """Does the same with streams; a job that outlives its stream continues with single calls."""

    patient = True

    @override
    async def run(self) -> None:
        """Works until it is cancelled."""
        self._streams: dict[tuple[int, int, int], OpenStream] = {}
        await HeartbeatMember.run(self)

    @override
    async def _consume(self) -> None:
        while not self.steady:
            await self._serve_stream()
            await asyncio.sleep(_PAUSE)
        await Consumer.run(self)

    async def _serve_stream(self) -> None:
        """Runs one stream until it breaks or the member is steady; then finishes its jobs."""
        client = self._client
        stream = OpenStream(asyncio.Queue(), self._assigned)
        stream.outgoing.put_nowait(self._subscription(stream.assigned))
        call = client.stub(ShareServiceStub).Consume(sent(stream.outgoing))
        reading = asyncio.create_task(self._read(call, stream))
        try:
            while not self.steady and not reading.done():
                if self._assigned != stream.assigned:
                    stream.assigned = self._assigned
                    stream.outgoing.put_nowait(share.ConsumeRequest(assignment=_assignment(stream.assigned)))
                await asyncio.wait([reading], timeout=_PAUSE)
        finally:
            reading.cancel()
            call.cancel()
            stream.end()
        if stream.jobs:
            await asyncio.wait(stream.jobs)

    async def _read(self, call: AsyncIterable[share.ConsumeResponse], stream: OpenStream) -> None:
        """Receives responses until the stream breaks."""
        try:
            async for response in call:
                self._receive(response, stream)
        except grpc.aio.AioRpcError as failure:
            self._client.history.log(f"the stream of {self.member} ends: {from_rpc_error(failure)}")

    def _subscription(self, assigned: frozenset[Part]) -> share.ConsumeRequest:
        request = share.ConsumeRequest(credit=1, assignment=_assignment(assigned))
        request.subscribe.group_id, request.subscribe.member_id = self.group, self.member
        request.subscribe.decode = request.subscribe.durable_locks = True
        request.subscribe.lock_ms = round(JOB_LOCK * 1000)
        return request

    def _receive(self, response: share.ConsumeResponse, stream: OpenStream) -> None:
        client = self._client
        for record in response.records:
            client.history.add(self._delivered(record, streamed=True))
            self._streams[record.partition, record.offset, record.lock_token] = stream
            stream.jobs.add(asyncio.create_task(self._job(record, stream)))
        for result in response.results:
            if not result.error_code:
                client.history.add(Applied(client.time(), result.id))
            waiting = stream.results.get(result.id)
            if waiting is not None and not waiting.done():
                waiting.set_result(None if result.error_code else True)

    async def _job(self, record: share.ShareRecord, stream: OpenStream) -> None:
        await self._work(record)
        stream.outgoing.put_nowait(share.ConsumeRequest(credit=1))

    @override
    async def _try(self, record: share.ShareRecord, verdict: Verdict) -> bool:
        """Acknowledges on the stream of the record, and by calls after an error or its end."""
        stream = self._streams[record.partition, record.offset, record.lock_token]
        if not stream.has_ended:
            ask = self._ask(record, verdict)
            stream.results[ask] = asyncio.get_running_loop().create_future()
            acknowledgement = delivery.Acknowledgement(
                id=ask,
                topic_id=record.topic_id,
                partition=record.partition,
                first_offset=record.offset,
                lock_token=record.lock_token,
                type=ACKNOWLEDGE_TYPES[verdict],
                blameless=verdict is Verdict.RETURN,
            )
            stream.outgoing.put_nowait(share.ConsumeRequest(acknowledgements=[acknowledgement]))
            if await stream.results[ask]:
                return True
        return await super()._try(record, verdict)


def _assignment(assigned: frozenset[Part]) -> share.ConsumeRequest.Assignment:
    parts = (
        delivery.TopicPartition(topic_id=part.topic_id, partition=part.partition) for part in sorted(assigned)
    )
    return share.ConsumeRequest.Assignment(partitions=parts)
