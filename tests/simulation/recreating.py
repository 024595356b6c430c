"""A topic that is deleted and created again with its name, and a member that consumes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from typing_extensions import override

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.gateway.v1.produce_pb2_grpc import ProduceServiceStub
from tests.simulation.clients import Client, Consumer
from tests.simulation.plan import Temper
from tests.testkit.checker.events import Delivered, Reset, Returned, Share, Undelivered, Verdict

RETURNS: Final = "returns"
GROUP: Final = "returning"

_TEMPER: Final[Temper] = {Verdict.ACCEPT: 60, Verdict.RELEASE: 20, Verdict.REJECT: 20}
_PACE: Final = 2.0
_DELETED: Final = 1 / 3
"""The share of the steps that create the topic again; the others publish a record."""

_LAST: Final = 3
"""Records that are published after the faults."""

_AGAIN: Final = 0.2
_PEACE: Final = 40.0
"""Seconds in which they are delivered."""


class ReturningConsumer(Consumer):
    """A member; the topic is known by its id, so that the checker has a state of its own for each."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, GROUP, RETURNS, "returner", _TEMPER)

    @override
    def _share(self, record: share.ShareRecord) -> Share:
        return Share(GROUP, record.topic_id, record.partition)

    @override
    def _delivered(self, record: share.ShareRecord, *, streamed: bool = False) -> Delivered:
        history, value = self._client.history, record.value.decode()
        written = history.watched.get(record.topic_id, {}).get(record.offset)
        history.add(Returned(self._client.time(), self._share(record), record.offset, value, written))
        return super()._delivered(record, streamed=streamed)


class Recreator:
    """Publishes records to the topic, and creates it again while some of them are not finished."""

    def __init__(self, client: Client, ids: Callable[[], Iterable[str]]) -> None:
        """`ids` returns the ids that processes have for the topic."""
        self._client = client
        self._ids = ids
        self._topic_id = ""
        self._published = 0

    async def run(self, until: float) -> None:
        """Creates the topic, and changes it until a time."""
        client = self._client
        await self._create()
        while (at := client.time() + client.random.expovariate(_PACE)) < until:
            await asyncio.sleep(at - client.time())
            if client.random.random() < _DELETED:
                await self._create_again()
            else:
                await self._publish(1)

    async def finish(self) -> None:
        """Creates the topic once more after the faults; each of its records must be delivered."""
        await self._create_again()
        await self._publish(_LAST)
        client, records = self._client, self._client.history.watched[self._topic_id]
        deadline = client.time() + _PEACE
        missing = set(records)
        while missing and client.time() < deadline:
            await asyncio.sleep(_AGAIN)
            missing = set(records) - self._seen()
        client.history.add(Undelivered(client.time(), RETURNS, tuple(sorted(missing))))

    def _seen(self) -> set[int]:
        """Returns the offsets of the present topic that were delivered."""
        events = self._client.history.events
        seen = (event for event in events if isinstance(event, Returned))
        return {event.offset for event in seen if event.share.topic == self._topic_id}

    async def _create(self) -> None:
        client, topic_id = self._client, ""
        request = cluster.CreateTopicsRequest(
            topics=[cluster.CreateTopicsRequest.Topic(name=RETURNS, num_partitions=1)]
        )
        while not topic_id:
            [created] = (await client.admin("CreateTopics", request)).topics
            # The response to an earlier attempt may be lost.
            existing = (each for each in self._ids() if each not in client.history.deleted)
            topic_id = created.topic_id or next(existing, "")
            await asyncio.sleep(_AGAIN)
        self._topic_id = topic_id
        client.history.watched.setdefault(topic_id, {})

    async def _create_again(self) -> None:
        """Deletes the topic by its id: a late request must not delete the next one."""
        client = self._client
        client.history.log(f"{RETURNS} is created again")
        client.history.add(Reset(client.time(), Share(GROUP, self._topic_id, 0)))
        client.history.deleted.add(self._topic_id)
        request = cluster.DeleteTopicsRequest(
            topics=[cluster.DeleteTopicsRequest.Topic(topic_id=self._topic_id)]
        )
        while True:
            [deleted] = (await client.admin("DeleteTopics", request)).topics
            if deleted.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID):
                break
            await asyncio.sleep(_AGAIN)
        await self._create()

    async def _publish(self, number: int) -> None:
        request = produce.PublishRequest(topic=RETURNS)
        for _ in range(number):
            request.records.add(text=f"{RETURNS}-{self._published}")
            self._published += 1
        response = None
        while response is None:
            response = await self._client.call(ProduceServiceStub, "Publish", request)
            await asyncio.sleep(_AGAIN)
