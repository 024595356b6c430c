"""ProduceStream: many appends in flight, each answered when it is durable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_server.aio import Tasks
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.config import IN_FLIGHT_BYTES, REQUEST_TIMEOUT, UNSENT_MESSAGES
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.produce.append import produce
from sharebroker_server.gateway.send_queue import SendQueue


async def produce_stream(
    gateway: Gateway, requests: AsyncIterator[pb.ProduceStreamRequest]
) -> AsyncGenerator[pb.ProduceStreamResponse, None]:
    """Serves a ProduceStream until the client half-closes it and every request has its response."""
    stream = _ProduceStream(gateway)
    try:
        stream.start(requests)
        async for response in stream.queue:
            yield response
    finally:
        await stream.stop()


class _ProduceStream:
    """Appends each partition's batches in the order of the requests.

    A request waits for earlier requests that name one of its partitions, because those may be retried. The
    client is read only while less than IN_FLIGHT_BYTES are in flight.
    """

    def __init__(self, gateway: Gateway) -> None:
        self.queue: SendQueue[pb.ProduceStreamResponse] = SendQueue(UNSENT_MESSAGES)
        self._gateway = gateway
        self._tasks = Tasks(self.queue.fail)
        self._last: dict[tuple[str, int], asyncio.Event] = {}
        self._in_flight = 0
        self._completed = asyncio.Event()

    def start(self, requests: AsyncIterator[pb.ProduceStreamRequest]) -> None:
        self._tasks.spawn(self._read(requests))

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _read(self, requests: AsyncIterator[pb.ProduceStreamRequest]) -> None:
        async for request in requests:
            size = request.ByteSize()
            await self._until_below(IN_FLIGHT_BYTES)
            self._in_flight += size
            self._tasks.spawn(self._produce(request, size))
        await self._until_below(1)
        await self.queue.end()

    async def _until_below(self, limit: int) -> None:
        while self._in_flight >= limit:
            self._completed.clear()
            await self._completed.wait()

    async def _produce(self, request: pb.ProduceStreamRequest, size: int) -> None:
        async with self._turn(request.produce):
            response = await produce(self._gateway, request.produce, Deadline(REQUEST_TIMEOUT))
        await self.queue.put(pb.ProduceStreamResponse(id=request.id, produce=response))
        self._in_flight -= size
        self._completed.set()

    @asynccontextmanager
    async def _turn(self, request: pb.ProduceRequest) -> AsyncIterator[None]:
        """Waits until all earlier requests for the same partitions are complete."""
        partitions = {
            (topic.topic_id or topic.name, part.index)
            for topic in request.topic_data
            for part in topic.partition_data
        }
        before = {self._last[partition] for partition in partitions if partition in self._last}
        done = asyncio.Event()
        self._last |= dict.fromkeys(partitions, done)
        try:
            for earlier in before:
                await earlier.wait()
            yield
        finally:
            done.set()
            for partition in partitions:
                if self._last[partition] is done:
                    del self._last[partition]
