"""A producer of scheduled records, which recalls some of them."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.gateway.v1.admin_pb2_grpc import AdminServiceStub
from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceStub
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from tests.simulation.clients import MOST_AT_ONCE, Client
from tests.testkit.checker.events import DUE, Published, Recalled
from tests.testkit.simulator.outside import EPOCH

LONGEST_DELAY: Final = 8.0
"""Seconds: longer than a fail-over."""

_RECALLED: Final = 0.5
"""The share of the calls that are followed by a recall of one of their records."""


class SchedulingProducer:
    """Publishes a few records at a time, `pace` times a second, with one delivery time."""

    def __init__(self, client: Client, name: str, topics: tuple[str, str], pace: float) -> None:
        self._client = client
        self._name = name
        self._topic, self._topic_id = topics
        self._pace = pace
        self._published = 0

    async def run(self, until: float) -> None:
        """Publishes until a time; unconfirmed records are not published again."""
        client, random = self._client, self._client.random
        while (at := client.time() + random.expovariate(self._pace)) < until:
            await asyncio.sleep(at - client.time())
            await self._publish(client.time() + random.uniform(1.0, LONGEST_DELAY))

    async def _publish(self, due: float) -> None:
        client = self._client
        request = produce.PublishRequest(topic=self._topic)
        for _ in range(client.random.randint(1, MOST_AT_ONCE)):
            text = f"{DUE}{due:.3f} {self._name}-{self._published}"
            request.records.add(text=text, deliver_at_ms=round((EPOCH + due) * 1000))
            self._published += 1
        response: Any = await client.call(ProduceServiceStub, "Publish", request)
        places = list(response.positions) if response is not None else []
        for record, place in zip(request.records, places, strict=False):
            event = Published(client.time(), self._topic, place.partition, place.offset, record.text)
            client.history.add(event)
        if places and client.random.random() < _RECALLED:
            place = client.random.choice(places)
            await self._recall(place.partition, place.offset)

    async def _recall(self, partition: int, offset: int) -> None:
        client = self._client
        request = leader.RecallRecordsRequest()
        request.partitions.add(topic_id=self._topic_id, partition=partition, offset=offset)
        client.history.add(Recalled(client.time(), self._topic, partition, offset, confirmed=False))
        response: Any = await client.call(AdminServiceStub, "RecallRecords", request)
        if response is not None and not response.partitions[0].error_code:
            client.history.add(Recalled(client.time(), self._topic, partition, offset, confirmed=True))
