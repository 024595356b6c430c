"""A producer of records that are older than every group permits; no member may receive them."""

from __future__ import annotations

import asyncio
from typing import Final

from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceStub
from tests.simulation.clients import MOST_AT_ONCE, Client
from tests.simulation.history import EXPIRED
from tests.testkit.simulator.outside import EPOCH

MAX_AGE_MS: Final = 600_000
"""The maximum age of the groups, longer than any run."""


class AgedProducer:
    """Publishes a few records at a time, `pace` times a second, with timestamps before the maximum age."""

    def __init__(self, client: Client, name: str, topic: str, pace: float) -> None:
        self._client = client
        self._name = name
        self._topic = topic
        self._pace = pace

    async def run(self, until: float) -> None:
        """Publishes until a time; unconfirmed records are not published again."""
        client, random = self._client, self._client.random
        while (at := client.time() + random.expovariate(self._pace)) < until:
            await asyncio.sleep(at - client.time())
            timestamp_ms = int((EPOCH + client.time()) * 1000) - 2 * MAX_AGE_MS
            request = produce.PublishRequest(topic=self._topic)
            for _ in range(random.randint(1, MOST_AT_ONCE)):
                request.records.add(text=f"{EXPIRED}{self._name}", timestamp_ms=timestamp_ms)
            await client.call(ProduceServiceStub, "Publish", request)
