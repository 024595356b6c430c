"""A Kafka client on raw sockets: sends requests in any version and reads the responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from ssl import SSLContext
from typing import Any

from sharebroker_server.kafka_wire.frames import codec_of, read_response, request_frame
from sharebroker_server.kafka_wire.schema import Message, api_schema, message_class

TIMEOUT = 20.0
CLOSE_TIMEOUT = 2.0
Batch = tuple[int, int, Sequence[int]]
"""First and last offset, and the types."""


class KafkaClient:
    """One connection: each request waits for its response, unless a test uses `send`."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str | None
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._numbers = count(1)

    async def ask(self, key: int, version: int, /, **fields: Any) -> Any:
        """Sends a request of an API in a version and returns the response; `part` makes its parts."""
        correlation_id = self.send(key, version, **fields)
        answered, message = await self.answer(key, version)
        assert answered == correlation_id
        return message

    def send(self, key: int, version: int, /, **fields: Any) -> int:
        """Sends a request without waiting; returns its correlation id."""
        number = next(self._numbers)
        message = message_class(api_schema(key).request)(**fields)
        self._writer.write(request_frame(number, self._client_id, codec_of(key, version), message))
        return number

    async def answer(self, key: int, version: int) -> tuple[int, Any]:
        """Returns the next response, which must be of this API and version. Raises IncompleteReadError
        when closed.
        """
        async with asyncio.timeout(TIMEOUT):
            size = int.from_bytes(await self._reader.readexactly(4))
            return read_response(await self._reader.readexactly(size), codec_of(key, version))

    async def write(self, data: bytes) -> None:
        """Sends bytes unchanged."""
        self._writer.write(data)
        await self._writer.drain()

    async def is_closed(self) -> bool:
        """Waits until the server closes the connection; returns False if it sends a response instead."""
        async with asyncio.timeout(TIMEOUT):
            try:
                return await self._reader.read(1) == b""
            except ConnectionError:
                return True

    async def close(self) -> None:
        """Closes the connection, and waits until its socket is closed: over TLS the server responds first."""
        self._writer.close()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._writer.wait_closed()
        except OSError:  # also of a server that does not read or has closed
            self.abort()

    def abort(self) -> None:
        """Aborts the connection, like a crashed client."""
        self._writer.transport.abort()

    # Share groups

    async def heartbeat(self, group_id: str, member_id: str, epoch: int, **fields: Any) -> Any:
        """Sends a ShareGroupHeartbeat."""
        return await self.ask(76, 1, group_id=group_id, member_id=member_id, member_epoch=epoch, **fields)

    async def share_fetch(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        wanted: Mapping[str, Sequence[int]] | None = None,
        acks: Mapping[tuple[str, int], Sequence[Batch]] | None = None,
        *,
        version: int = 2,
        **fields: Any,
    ) -> Any:
        """Sends a ShareFetch of a session, for up to 500 records, as a long poll."""
        sizes = {"max_wait_ms": 500, "min_bytes": 1, "max_records": 500, "batch_size": 500}
        topics = fetch_topics(wanted or {}, acks or {})
        fields = {**sizes, "topics": topics, "share_session_epoch": epoch, **fields}
        return await self.ask(78, version, group_id=group_id, member_id=member_id, **fields)

    async def share_acknowledge(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        acks: Mapping[tuple[str, int], Sequence[Batch]] | None = None,
        *,
        version: int = 2,
        **fields: Any,
    ) -> Any:
        """Sends a ShareAcknowledge of a session."""
        shapes: Any = message_class(api_schema(79).request)
        topics: dict[str, Any] = {}
        for (topic_id, index), batches in (acks or {}).items():
            topic = topics.setdefault(topic_id, shapes.AcknowledgeTopic(topic_id=topic_id, partitions=[]))
            part = shapes.AcknowledgePartition(
                partition_index=index, acknowledgement_batches=_batches(shapes, batches)
            )
            topic.partitions.append(part)
        fields = {"topics": list(topics.values()), "share_session_epoch": epoch, **fields}
        return await self.ask(79, version, group_id=group_id, member_id=member_id, **fields)


def fetch_topics(
    wanted: Mapping[str, Sequence[int]], acks: Mapping[tuple[str, int], Sequence[Batch]]
) -> list[Message]:
    """Returns the topics of a ShareFetch; partitions with acknowledgements need not be in `wanted`."""
    shapes: Any = message_class(api_schema(78).request)
    parts = dict.fromkeys((topic_id, index) for topic_id, some in wanted.items() for index in some)
    topics: dict[str, Any] = {}
    for topic_id, index in parts | dict.fromkeys(acks):
        topic = topics.setdefault(topic_id, shapes.FetchTopic(topic_id=topic_id, partitions=[]))
        batches = _batches(shapes, acks.get((topic_id, index), ()))
        topic.partitions.append(shapes.FetchPartition(partition_index=index, acknowledgement_batches=batches))
    return list(topics.values())


def part(key: int, name: str, /, **fields: Any) -> Message:
    """Returns a part of an API's request, by its name in Kafka's schema."""
    made: Message = getattr(message_class(api_schema(key).request), name)(**fields)
    return made


def answered(response: Any) -> dict[tuple[str, int], Any]:
    """Returns the partitions of a ShareFetch or ShareAcknowledge response by topic id and number."""
    return {
        (topic.topic_id, part.partition_index): part
        for topic in response.responses
        for part in topic.partitions
    }


def runs(data: Any) -> list[tuple[int, int, int]]:
    """Returns the acquired ranges of a partition: first and last offset, delivery count."""
    return [(run.first_offset, run.last_offset, run.delivery_count) for run in data.acquired_records]


@asynccontextmanager
async def connected(
    address: str, client_id: str | None = "test", tls: SSLContext | None = None
) -> AsyncIterator[KafkaClient]:
    """Provides a connection to a broker at "host:port", over TLS if it has a context."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 20, ssl=tls)
    client = KafkaClient(reader, writer, client_id)
    try:
        yield client
    finally:
        await client.close()


def _batches(shapes: Any, batches: Sequence[Batch]) -> list[Message]:
    return [
        shapes.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
        for first, last, types in batches
    ]
