"""A producer without sequence numbers that repeats its records, which have message ids."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceStub
from tests.simulation.clients import Client
from tests.testkit.checker.events import Confirmed, Published
from tests.testkit.checker.invariants import Invariant, Violation

WINDOW_MS: Final = 600_000
"""The window of the topic, longer than any run."""

_AGAIN: Final = 0.5
"""The share of confirmed records that are published once more."""

_TIMEOUT: Final = 1.0
_BACKOFF: Final = 0.05


class RepeatingProducer:
    """Publishes single records, `pace` times a second, each until it is confirmed, and some once more."""

    def __init__(self, client: Client, name: str, topic: str, pace: float) -> None:
        self._client = client
        self._name = name
        self._topic = topic
        self._pace = pace
        self._published = 0

    async def run(self, until: float) -> None:
        """Publishes until a time, each record until it is confirmed; then repeats all of them."""
        client = self._client
        confirmed: list[tuple[str, int]] = []
        while (at := client.time() + client.random.expovariate(self._pace)) < until:
            await asyncio.sleep(at - client.time())
            value = f"{self._name}-{self._published}"
            self._published += 1
            offset = await self._publish_until_confirmed(value)
            confirmed.append((value, offset))
            if client.random.random() < _AGAIN:
                value, offset = client.random.choice(confirmed)
                self._check(value, offset, await self._publish(value))
        for value, offset in confirmed:
            self._check(value, offset, await self._publish(value))

    async def _publish_until_confirmed(self, value: str) -> int:
        while True:
            offset = await self._publish(value)
            if offset is not None:
                self._add_confirmed(value, offset)
                return offset
            await asyncio.sleep(_BACKOFF)

    async def _publish(self, value: str) -> int | None:
        """Returns the offset of the record, None without a response."""
        request = produce.PublishRequest(topic=self._topic)
        request.records.add(text=value, partition=0, message_id=value)
        response: Any = await self._client.call(ProduceServiceStub, "Publish", request, timeout=_TIMEOUT)
        return None if response is None else int(response.positions[0].offset)

    def _add_confirmed(self, value: str, offset: int) -> None:
        at, history = self._client.time(), self._client.history
        history.add(Published(at, self._topic, 0, offset, value))
        history.add(Confirmed(at, self._topic, 0, value))

    def _check(self, value: str, first: int, again: int | None) -> None:
        """Checks that a repetition has the offset of the first record."""
        if again not in (None, first):
            violation = Violation(Invariant.STORED_ONCE, f"{value} has the offsets {first} and {again}")
            self._client.history.fail(violation)
