"""A Kafka listener on a real socket whose APIs execute what their requests name, and raw clients of it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.records import ConfigRecord
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.kafka.api import api_versions
from sharebroker_server.gateway.kafka.call import Api, Call, Coalescing, KafkaListener
from sharebroker_server.gateway.kafka.cluster_view import Brokers, LiveMembers
from sharebroker_server.gateway.kafka.listener import KafkaServer
from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.frames import codec_of, request_frame
from sharebroker_server.kafka_wire.messages import (
    DeleteTopicsResponse,
    ListGroupsResponse,
    MetadataRequest,
    MetadataResponse,
)
from sharebroker_server.kafka_wire.schema import Message
from sharebroker_server.leases.port import ClusterMember
from sharebroker_server.routing.router import GATEWAY, Router
from tests.support.kafka_client import KafkaClient, connected
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.waiting import eventually
from tests.unit.gateway.fakes import OwnerLookup, catalog, member

EXECUTE: Final = 3
"""The API that executes the name of its first topic as a command (Metadata, version 1)."""

WAIT: Final = 16
"""The same for the first filter of its request (ListGroups, version 4); it is an API that waits."""

JOIN: Final = 20
"""The same for its first topic (DeleteTopics, version 1); commands with `join` in their name coalesce."""


async def _not_refused(_: str) -> bool:
    return False


class Harness:
    """`begun` and `done` are the executed commands; `events` hold commands back until they are set."""

    def __init__(self, **properties: int) -> None:
        self.begun: list[str] = []
        self.done: list[str] = []
        self.joined: list[int] = []
        self.events: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.config = BrokerConfig.of(
            {name.replace("_", "."): str(value) for name, value in properties.items()}
        )
        self.router = Router(OwnerLookup(member(1, "127.0.0.1:1")), "1/1")
        self.gateway = Gateway(self.router, catalog(), self.config)
        self.server = KafkaServer()
        self.address = f"127.0.0.1:{self.server.bind('127.0.0.1', 0)}"
        local = ClusterMember("1/1", 1, frozenset({GATEWAY}), "127.0.0.1:1", self.address)
        live_members, partitions = (
            LiveMembers(OwnerLookup(local), _not_refused),
            self.gateway.catalog.partitions,
        )
        brokers = Brokers(live_members, local, MemoryLeaseStore(), hash, partitions)
        self.apis = {
            EXECUTE: Api(EXECUTE, (1, 1), self._handle, _refuse),
            WAIT: Api(WAIT, (4, 4), self._wait, _refuse_wait, waits=True),
            JOIN: Api(JOIN, (1, 1), self._join, _refuse_join, coalescing=Coalescing(self._join_all, _fits)),
            18: api_versions.API,
        }
        self.listener = KafkaListener(self.gateway, brokers, self.apis)

    async def _handle(self, call: Call[Any]) -> Message | None:
        command = call.request.topics[0].name
        result = await self._execute(command)
        if command == "silent":
            return None
        topics: Any = [MetadataResponse.MetadataResponseTopic(name=part) for part in _parts(result)]
        if command == "nonsense":
            topics = 5
        return MetadataResponse(topics=topics, controller_id=1)

    async def _wait(self, call: Call[Any]) -> Message | None:
        result = await self._execute(call.request.states_filter[0])
        return ListGroupsResponse(groups=[ListGroupsResponse.ListedGroup(group_id=result)])

    async def _join(self, call: Call[Any]) -> Message | None:
        raise NotImplementedError

    async def _join_all(self, calls: Sequence[Call[Any]]) -> list[Message | None]:
        self.joined.append(len(calls))
        return [_deleted(await self._execute(call.request.topic_names[0])) for call in calls]

    async def _execute(self, command: str) -> str:
        """Executes `verb` or `verb:argument`; any other text is echoed."""
        self.begun.append(command)
        verb, _, argument = command.partition(":")
        if verb == "hold":
            await self.events[argument].wait()
        elif verb == "big":
            command = "x" * int(argument)
        elif verb == "fail":
            raise RuntimeError("on demand")
        elif verb == "refuse":
            raise KafkaError(ErrorCode[argument])
        elif verb == "hang up":
            raise BadMessage("on demand")
        self.done.append(command)
        return command

    def configure(self, record: ConfigRecord) -> None:
        """Changes a dynamic config."""
        follower = self.gateway.catalog
        follower.catalog.apply(record, follower.catalog.position + 1)
        follower._publish(follower.catalog, [record])

    async def past_checks(self, seconds: float) -> None:
        """Checks the connections as if so many seconds had passed."""
        self.server.check(asyncio.get_running_loop().time() + seconds)
        await asyncio.sleep(0)

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self.server._connections)

    async def done_count(self, number: int) -> None:
        """Waits until so many commands are done."""
        await eventually(lambda: len(self.done) == number)

    async def open_count(self, number: int) -> None:
        """Waits until so many connections are open."""
        await eventually(lambda: self.connections == number)


@asynccontextmanager
async def serving(harness: Harness) -> AsyncIterator[Harness]:
    """The harness while it serves."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(harness.router.close)
        stack.push_async_callback(harness.gateway.stop)
        harness.server.open(harness.listener, harness.config)
        await harness.server.start()
        stack.callback(harness.server.close)
        stack.push_async_callback(harness.server.stop, 1.0)
        yield harness


@dataclass
class Caller:
    """A raw client of a harness."""

    raw: KafkaClient

    def send(self, *commands: str) -> None:
        """Sends commands without waiting."""
        for command in commands:
            self.raw.send(EXECUTE, 1, topics=[MetadataRequest.MetadataRequestTopic(name=command)])

    def wait_for(self, *commands: str) -> None:
        """Sends commands to the API that waits."""
        for command in commands:
            self.raw.send(WAIT, 4, states_filter=[command])

    def coalesce(self, *commands: str) -> None:
        """Sends commands to the API that coalesces."""
        for command in commands:
            self.raw.send(JOIN, 1, topic_names=[command])

    async def receive_coalesced(self) -> str:
        """Returns the next response of that API."""
        _, response = await self.raw.answer(JOIN, 1)
        return str(response.responses[0].name)

    def crash(self) -> None:
        """Resets the connection."""
        transport = self.raw._writer.transport
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        transport.abort()

    async def receive(self) -> str:
        """Returns the next response."""
        _, response = await self.raw.answer(EXECUTE, 1)
        return "".join(topic.name for topic in response.topics)

    async def execute(self, command: str) -> str:
        """Sends a command and returns its response."""
        self.send(command)
        return await self.receive()


@asynccontextmanager
async def calling(harness: Harness) -> AsyncIterator[Caller]:
    """A client."""
    async with connected(harness.address) as raw:
        yield Caller(raw)


def order_frame(command: str, number: int = 1) -> bytes:
    """A request as bytes, with its length prefix."""
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=command)])
    return bytes(request_frame(number, "test", codec_of(EXECUTE, 1), request))


def large_frame(command: str, size: int) -> bytes:
    """A request with this command that has `size` bytes, length prefix included."""
    names = (command, *["f" * 30_000] * (size // 30_002))
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names])
    frame = request_frame(1, "test", codec_of(EXECUTE, 1), request)
    frame += bytes(size - len(frame))  # bytes after a message are ignored
    frame[:4] = (size - 4).to_bytes(4)
    return bytes(frame)


def _parts(text: str) -> list[str]:
    """Splits the text into parts that fit into a string field."""
    return [text[at : at + 30_000] for at in range(0, len(text), 30_000)]


def _fits(call: Call[Any], earlier: Call[Any]) -> bool:
    return all("join" in one.request.topic_names[0] for one in (call, earlier))


def _deleted(name: str) -> Message:
    return DeleteTopicsResponse(responses=[DeleteTopicsResponse.DeletableTopicResult(name=name)])


def _refuse_join(call: Call[Any], error: KafkaError) -> Message:
    return _deleted(f"{error.code.name}: {call.request.topic_names[0]}")


def _refuse(call: Call[Any], error: KafkaError) -> Message:
    text = f"{error.code.name}: {error.message}"
    return MetadataResponse(topics=[MetadataResponse.MetadataResponseTopic(name=text)], controller_id=1)


def _refuse_wait(call: Call[Any], error: KafkaError) -> Message:
    return ListGroupsResponse(error_code=error.code)
