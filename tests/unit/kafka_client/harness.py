"""A broker that a test scripts."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.kafka_client.connection import BrokerConnection, ConnectionSettings
from sharebroker_server.kafka_client.core.apis import (
    API_VERSIONS,
    DESCRIBE_CONFIGS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    ClientApi,
)
from sharebroker_server.kafka_wire.frames import codec_of, read_header, read_request, response_frame
from sharebroker_server.kafka_wire.messages import ApiVersionsResponse, MetadataRequest, MetadataResponse
from sharebroker_server.kafka_wire.schema import Message

SETTINGS = ConnectionSettings(request_timeout=20.0, setup_timeout=20.0)
OFFERED = {
    FETCH.key: (0, 12),
    LIST_OFFSETS.key: (0, 7),
    METADATA.key: (0, 9),
    SASL_HANDSHAKE.key: (0, 1),
    API_VERSIONS.key: (0, 3),
    OFFSET_FOR_LEADER_EPOCH.key: (0, 4),
    SASL_AUTHENTICATE.key: (0, 2),
    DESCRIBE_CONFIGS.key: (0, 4),
}


def api_keys(offered: dict[int, tuple[int, int]]) -> list[ApiVersionsResponse.ApiVersion]:
    return [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=first, max_version=last)
        for key, (first, last) in offered.items()
    ]


@dataclass
class Broker:
    """A broker with one behaviour: `respond` receives the API key, the version and the message."""

    offered: dict[int, tuple[int, int]] = field(default_factory=lambda: dict(OFFERED))
    respond: Callable[[int, int, Any], Awaitable[Message | bytes | None]] | None = None
    before_2_4: bool = False
    port: int = 0
    received: list[tuple[int, int, Any]] = field(default_factory=list)
    client_ids: set[str | None] = field(default_factory=set)
    answers: asyncio.Queue[Message | bytes | None] = field(default_factory=asyncio.Queue)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                await self._answer(frame, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        header = read_header(frame)
        key, version, number = header.api_key, header.version, header.correlation_id
        self.client_ids.add(header.client_id)
        last = self.offered.get(key, (0, -1))[1]
        if key == API_VERSIONS.key and version > last:
            self.received.append((key, version, None))
            own = {} if self.before_2_4 else {key: self.offered[key]}
            refused = ApiVersionsResponse(error_code=35, api_keys=api_keys(own))
            writer.write(response_frame(number, codec_of(key, 0), refused))
            return
        message = read_request(frame, header, codec_of(key, version))
        self.received.append((key, version, message))
        answer: Message | bytes | None
        if self.respond is not None and (own_answer := await self.respond(key, version, message)) is not None:
            answer = own_answer
        elif key == API_VERSIONS.key:
            answer = ApiVersionsResponse(api_keys=api_keys(self.offered))
        else:
            answer = await self.answers.get()
        if answer is None:
            writer.close()
        elif isinstance(answer, bytes):
            writer.write(answer)
        else:
            writer.write(response_frame(number, codec_of(key, version), answer))


@asynccontextmanager
async def serving(broker: Broker, tls: ssl.SSLContext | None = None) -> AsyncIterator[Broker]:
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0, ssl=tls)
    broker.port = server.sockets[0].getsockname()[1]
    try:
        yield broker
    finally:
        server.close()


@asynccontextmanager
async def connected(
    broker: Broker, settings: ConnectionSettings = SETTINGS
) -> AsyncIterator[BrokerConnection]:
    async with serving(broker):
        connection = await BrokerConnection.open("127.0.0.1", broker.port, settings)
        try:
            yield connection
        finally:
            connection.close()


def metadata(name: str, throttle_time_ms: int = 0) -> MetadataResponse:
    return MetadataResponse(cluster_id=name, brokers=[], topics=[], throttle_time_ms=throttle_time_ms)


async def ask(
    connection: BrokerConnection,
    timeout: float | None = None,
    api: ClientApi[MetadataRequest, MetadataResponse] = METADATA,
) -> str | None:
    response = await connection.request(api, MetadataRequest(topics=[]), timeout)
    return response.cluster_id


def has_unanswered(connection: BrokerConnection, number: int) -> bool:
    return connection.unanswered >= number


async def silent(*_: object) -> None:
    """Responds to nothing."""
    await asyncio.Event().wait()


async def failure(work: Awaitable[object]) -> KafkaError:
    with pytest.raises(KafkaError) as failed:
        await work
    return failed.value
