"""A pipelining idempotent producer over the public calls; what it does on errors is librdkafka's."""

from __future__ import annotations

import asyncio
from typing import Final

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceStub
from tests.simulation.clients import Client
from tests.testkit.checker.events import Confirmed, Published
from tests.testkit.checker.invariants import Invariant, Violation
from tests.testkit.idempotent_producer import IdempotentProducer, Request, encoded

_PRODUCER_ID: Final = 7
_PARTITIONS: Final = 2
_TIMEOUT: Final = 1.0
"""Seconds for a call: several attempts fit into the time in which a missing batch is expected."""

_MOST_BATCHES: Final = 4
_BACKOFF: Final = 0.05


class PipeliningProducer:
    """Publishes a few batches at once, `pace` times a second, to two partitions."""

    def __init__(self, client: Client, name: str, topic: str, pace: float) -> None:
        self._client = client
        self._name = name
        self._topic = topic
        self._pace = pace
        self._producer = IdempotentProducer(_PRODUCER_ID, _PARTITIONS)
        self._confirmed = [0] * _PARTITIONS
        self._published = 0
        self._changed = asyncio.Event()
        self._calls: set[asyncio.Task[None]] = set()

    async def run(self, until: float) -> None:
        """Publishes until a time, and sends everything again until it is acknowledged."""
        adding = asyncio.create_task(self._add(until))
        try:
            while not (adding.done() and self._producer.done):
                self._changed.clear()
                self._send()
                await self._changed.wait()
        finally:
            for task in (adding, *self._calls):
                task.cancel()

    async def _add(self, until: float) -> None:
        client, random = self._client, self._client.random
        while (at := client.time() + random.expovariate(self._pace)) < until:
            await asyncio.sleep(at - client.time())
            for _ in range(random.randint(1, _MOST_BATCHES)):
                count = random.randint(1, 2)
                values = [f"{self._name}-{self._published + n}" for n in range(count)]
                self._producer.add(random.randrange(_PARTITIONS), values)
                self._published += count
            self._changed.set()
        self._changed.set()

    def _send(self) -> None:
        """Sends what may be sent; all batches of a partition at once by the same gateway, as a leader."""
        gateways = [self._client.gateway() for _ in range(_PARTITIONS)]
        for request in self._producer.to_send():
            task = asyncio.create_task(self._call(request, gateways[request.partition]))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def _call(self, request: Request, gateway: str) -> None:
        call = produce.ProduceRequest()
        topic = call.topic_data.add(name=self._topic)
        topic.partition_data.add(index=request.partition, records=encoded(_PRODUCER_ID, request))
        answer = await self._client.call(ProduceServiceStub, "Produce", call, gateway, _TIMEOUT)
        code = None
        if answer is not None:
            (result,) = answer.responses[0].partition_responses
            code = ErrorCode(result.error_code)
            if code is ErrorCode.NONE:
                self._add_published(request, result.base_offset)
        if code is not ErrorCode.NONE:
            await asyncio.sleep(_BACKOFF)
        self._completed(request, code)

    def _completed(self, request: Request, code: ErrorCode | None) -> None:
        producer, history = self._producer, self._client.history
        producer.completed(request, code)
        if producer.fatal:
            history.fail(Violation(Invariant.STORED_ONCE, f"the producer stops after {producer.fatal.name}"))
        acknowledged = producer.acknowledged[request.partition]
        for value in acknowledged[self._confirmed[request.partition] :]:
            history.add(Confirmed(self._client.time(), self._topic, request.partition, value))
        self._confirmed[request.partition] = len(acknowledged)
        self._changed.set()

    def _add_published(self, request: Request, base_offset: int) -> None:
        at, history = self._client.time(), self._client.history
        for offset, value in enumerate(request.values, base_offset):
            history.add(Published(at, self._topic, request.partition, offset, value))
