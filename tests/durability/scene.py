"""The steps of these tests before and after a loss; they retry retriable errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import grpc

from sharebroker_protocol.gateway.v1 import share_pb2 as share
from tests.support.client import Client, rejection_of
from tests.testkit.waiting import eventually


@contextmanager
def retriable() -> Iterator[None]:
    """Suppresses retriable errors."""
    try:
        yield
    except grpc.aio.AioRpcError as failure:
        if not rejection_of(failure).retriable:
            raise


async def published(client: Client, topic: str, text: str) -> int:
    """Publishes a record as soon as that succeeds; returns its offset."""
    offsets: list[int] = []

    async def done() -> bool:
        with retriable():
            offsets.extend(offset for _, offset in await client.publish(topic, [text], timeout=2.0))
        return bool(offsets)

    await eventually(done, 30.0)
    return offsets[0]


async def acquired(client: Client, group_id: str, topic: str, records: int) -> dict[str, int]:
    """Acquires until this many records arrived; earlier locks may have to time out. Returns texts and
    offsets.
    """
    found: dict[str, int] = {}

    async def enough() -> bool:
        with retriable():
            response = await client.acquire(group_id, topic, 10, member="late", wait=0.5)
            found.update((record.text, record.offset) for record in response.records)
        return len(found) >= records

    await eventually(enough, 60.0)
    return found


async def accepted(client: Client, group_id: str, member: str, records: Sequence[share.ShareRecord]) -> None:
    """Accepts records as soon as that succeeds."""

    async def done() -> bool:
        with retriable():
            return await client.acknowledge(group_id, member, records) == [0] * len(records)
        return False

    await eventually(done, 30.0)


@dataclass
class Scene:
    """Records a, b and c, a accepted: that is safe. Then d and e, and b accepted: that may be lost."""

    topic: str
    topic_id: str
    group_id: str
    held: list[share.ShareRecord]

    @staticmethod
    async def set(client: Client) -> Scene:
        """Creates the state that survives."""
        topic, topic_id = await client.create()
        group_id = await client.group()
        await client.publish(topic, ["a", "b", "c"])
        held = await client.acquire_all(group_id, topic, 3, "early")
        assert await client.acknowledge(group_id, "early", held[:1]) == [0]
        return Scene(topic, topic_id, group_id, held)

    async def last_second(self, client: Client) -> None:
        """Creates the state that is lost."""
        assert await client.publish(self.topic, ["d", "e"]) == [(0, 3), (0, 4)]
        assert await client.acknowledge(self.group_id, "early", self.held[1:2]) == [0]
