"""A Kafka door on a real socket whose APIs do what their requests say, and raw clients of it."""

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
from sharebroker_server.cluster.router import GATEWAY, Router
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.kafka.api import api_versions
from sharebroker_server.gateway.kafka.cluster_view.brokers import Brokers
from sharebroker_server.gateway.kafka.cluster_view.live_members import Announced
from sharebroker_server.gateway.kafka.connection.listener import KafkaServer
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call, Door, Joined
from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.frames import codec, request_frame
from sharebroker_server.kafka_wire.message_classes import Message, request_shapes, response_shapes
from sharebroker_server.leases.memory import MemoryLeaseStore
from sharebroker_server.leases.port import Member
from sharebroker_server.testkit.waiting import eventually
from tests.support.kafka_client import KafkaClient, connected
from tests.unit.gateway.fakes import Ownership, catalog, member

DO: Final = 3
"""The API that does what the first topic of its request is called (Metadata, version 1)."""

WAIT: Final = 16
"""The same for the first filter of its request (ListGroups, version 4): it waits for something."""

JOIN: Final = 20
"""The same for the first topic of its request (DeleteTopics, version 1); what says `join` is joined."""

_METADATA = response_shapes(DO)
_DELETE = response_shapes(JOIN)
_GROUPS = response_shapes(WAIT)


async def _not_refused(_: str) -> bool:
    return False


class Bench:
    """`done` is what was asked and finished, in order; `events` hold requests back until they are set."""

    def __init__(self, **settings: int) -> None:
        self.begun: list[str] = []
        self.done: list[str] = []
        self.joined: list[int] = []
        self.events: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.config = BrokerConfig.of(
            {name.replace("_", "."): str(value) for name, value in settings.items()}
        )
        self.router = Router(Ownership(member(1, "127.0.0.1:1")), "1/1")
        self.gateway = Gateway(self.router, catalog(), self.config)
        self.server = KafkaServer()
        self.address = f"127.0.0.1:{self.server.bind('127.0.0.1', 0)}"
        me = Member("1/1", 1, frozenset({GATEWAY}), "127.0.0.1:1", self.address)
        announced, partitions = Announced(lambda: [me], _not_refused), self.gateway.catalog.partitions
        brokers = Brokers(announced, me, MemoryLeaseStore(), hash, partitions)
        self.door = Door(self.gateway, brokers, {})
        self.apis = {
            DO: Api(DO, (1, 1), self._do, _refuse_do),
            WAIT: Api(WAIT, (4, 4), self._wait, _refuse_wait, waits=True),
            JOIN: Api(JOIN, (1, 1), self._join, _refuse_join, joined=Joined(self._join_all, _fit)),
            18: api_versions.API,
        }

    async def _do(self, call: Call) -> Message | None:
        order = call.request.topics[0].name
        answer = await self._as_told(order)
        if order == "silent":
            return None
        topics: Any = [_METADATA.MetadataResponseTopic(name=part) for part in _parts(answer)]
        return _METADATA.MetadataResponse(topics=5 if order == "nonsense" else topics, controller_id=1)

    async def _wait(self, call: Call) -> Message | None:
        answer = await self._as_told(call.request.states_filter[0])
        return _GROUPS.ListGroupsResponse(groups=[_GROUPS.ListedGroup(group_id=answer)])

    async def _join(self, call: Call) -> Message | None:
        raise NotImplementedError

    async def _join_all(self, calls: Sequence[Call]) -> list[Message | None]:
        self.joined.append(len(calls))
        return [_deleted(await self._as_told(call.request.topic_names[0])) for call in calls]

    async def _as_told(self, order: str) -> str:
        """What `what` or `what:how` comes to; whatever else is said is the answer."""
        self.begun.append(order)
        what, _, how = order.partition(":")
        if what == "hold":
            await self.events[how].wait()
        elif what == "big":
            order = "x" * int(how)
        elif what == "fail":
            raise RuntimeError("on demand")
        elif what == "refuse":
            raise KafkaError(ErrorCode[how])
        elif what == "hang up":
            raise BadMessage("on demand")
        self.done.append(order)
        return order

    def configure(self, record: ConfigRecord) -> None:
        """A setting changes."""
        follower = self.gateway.catalog
        follower.catalog.apply(record, follower.catalog.position + 1)
        follower._publish(follower.catalog, [record])

    async def past_checks(self, seconds: float) -> None:
        """As if so much time had passed, as far as watching connections goes."""
        self.server.check(asyncio.get_running_loop().time() + seconds)
        await asyncio.sleep(0)

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self.server._connections)

    async def done_count(self, number: int) -> None:
        """Wait until so many requests are done."""
        await eventually(lambda: len(self.done) == number)

    async def open_count(self, number: int) -> None:
        """Wait until so many are open."""
        await eventually(lambda: self.connections == number)


@asynccontextmanager
async def serving(bench: Bench) -> AsyncIterator[Bench]:
    """The bench while it serves."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(bench.router.close)
        stack.push_async_callback(bench.gateway.stop)
        bench.server.open(bench.door, bench.config)
        await bench.server.start()
        stack.callback(bench.server.close)
        stack.push_async_callback(bench.server.stop, 1.0)
        yield bench


@dataclass
class Caller:
    """A raw client of a bench."""

    raw: KafkaClient

    def say(self, *orders: str) -> None:
        """Send requests without waiting."""
        for order in orders:
            self.raw.send(DO, 1, topics=[request_shapes(DO).MetadataRequestTopic(name=order)])

    def wait_for(self, *orders: str) -> None:
        """Send requests of the API that waits."""
        for order in orders:
            self.raw.send(WAIT, 4, states_filter=[order])

    def join(self, *orders: str) -> None:
        """Send requests of the API that joins."""
        for order in orders:
            self.raw.send(JOIN, 1, topic_names=[order])

    async def hear_joined(self) -> str:
        """The next answer of that API."""
        answer: Any
        _, answer = await self.raw.answer(JOIN, 1)
        return str(answer.responses[0].name)

    def crash(self) -> None:
        """Reset the connection."""
        transport = self.raw._writer.transport
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        transport.abort()

    async def hear(self) -> str:
        """The next answer."""
        _, answer = await self.raw.answer(DO, 1)
        return "".join(topic.name for topic in answer.topics)

    async def ask(self, order: str) -> str:
        """Say and hear."""
        self.say(order)
        return await self.hear()


@asynccontextmanager
async def calling(bench: Bench) -> AsyncIterator[Caller]:
    """A client."""
    async with connected(bench.address) as raw:
        yield Caller(raw)


def order_frame(order: str, number: int = 1) -> bytes:
    """A request as bytes, its length in front."""
    shapes = request_shapes(DO)
    request = shapes.MetadataRequest(topics=[shapes.MetadataRequestTopic(name=order)])
    return bytes(request_frame(number, "test", codec(DO, 1), request))


def large_frame(order: str, size: int) -> bytes:
    """A request that does what `order` says and has `size` bytes, length included."""
    shapes = request_shapes(DO)
    topics = [shapes.MetadataRequestTopic(name=name) for name in (order, *["f" * 30_000] * (size // 30_002))]
    frame = request_frame(1, "test", codec(DO, 1), shapes.MetadataRequest(topics=topics))
    frame += bytes(size - len(frame))  # what follows a message is not looked at
    frame[:4] = (size - 4).to_bytes(4)
    return bytes(frame)


def _parts(text: str) -> list[str]:
    """Pieces that are short enough for a string."""
    return [text[at : at + 30_000] for at in range(0, len(text), 30_000)]


def _fit(call: Call, before: Call) -> bool:
    return all("join" in one.request.topic_names[0] for one in (call, before))


def _deleted(name: str) -> Message:
    return _DELETE.DeleteTopicsResponse(responses=[_DELETE.DeletableTopicResult(name=name)])


def _refuse_join(call: Call, error: KafkaError) -> Message:
    return _deleted(f"{error.code.name}: {call.request.topic_names[0]}")


def _refuse_do(call: Call, error: KafkaError) -> Message:
    text = f"{error.code.name}: {error.message}"
    return _METADATA.MetadataResponse(topics=[_METADATA.MetadataResponseTopic(name=text)], controller_id=1)


def _refuse_wait(call: Call, error: KafkaError) -> Message:
    return _GROUPS.ListGroupsResponse(error_code=error.code)
