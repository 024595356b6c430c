"""Calls in the simulated network end as calls of gRPC do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any

import grpc
import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.rpc.server import Service
from sharebroker_server.rpc.stubs import NOT_SENT, RemoteStub
from tests.testkit.simulator.faults import NO_RATES, Faults, Rates
from tests.testkit.simulator.loop import SimulatedLoop, run
from tests.testkit.simulator.network import CLIENT, Network
from tests.testkit.simulator.node import Node

ADDRESS = "server:1"


class Echo:
    """Echoes requests; `requests` counts them."""

    def __init__(self) -> None:
        self.requests = 0
        self.ended = False

    async def Say(self, request: bytes, context: Any) -> bytes:
        self.requests += 1
        if request == b"refuse":
            raise KafkaError(ErrorCode.INVALID_REQUEST, "no")
        if request == b"wait":
            await asyncio.Event().wait()
        return request

    async def Chat(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        try:
            async for request in requests:
                if request == b"refuse":
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "no")
                yield request
        finally:
            self.ended = True


class Stub:
    """A stub as generated code creates it from a channel."""

    def __init__(self, channel: Any) -> None:
        self.Say = channel.unary_unary("/echo.Echo/Say", bytes, bytes, _registered_method=True)
        self.Chat = channel.stream_stream("/echo.Echo/Chat", bytes, bytes, _registered_method=True)


def register(servicer: Any, server: Any) -> None:
    handlers = {
        "Say": grpc.unary_unary_rpc_method_handler(servicer.Say, bytes, bytes),
        "Chat": grpc.stream_stream_rpc_method_handler(servicer.Chat, bytes, bytes),
    }
    server.add_registered_method_handlers("echo.Echo", handlers)


class Harness:
    """A server, and a client's stub for it."""

    def __init__(self, loop: SimulatedLoop, rates: Rates) -> None:
        self.loop = loop
        self.faults = Faults(Random(0), rates)
        self.network = Network(loop, self.faults)
        self.node = Node(ADDRESS)
        self.echo = Echo()
        self.stub: Any = RemoteStub(Stub(self.network.dial(ADDRESS)))

    async def serve(self) -> None:
        await self.network.serve(self.node, [Service("echo.Echo", self.echo, register)])


def simulate(scenario: Callable[[Harness], Awaitable[None]], rates: Rates = NO_RATES) -> None:
    loop = SimulatedLoop(Random(0))

    async def main() -> None:
        there = Harness(loop, rates)
        await there.serve()
        await scenario(there)
        there.network.closed = True

    run(loop, main())


async def code_of(call: Awaitable[Any]) -> ErrorCode:
    try:
        await call
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


async def stream_of(*words: bytes) -> AsyncIterator[bytes]:
    for word in words:
        yield word


def test_responses_and_errors_are_delivered() -> None:
    async def scenario(there: Harness) -> None:
        assert await there.stub.Say(b"hello", timeout=1.0) == b"hello"
        assert await code_of(there.stub.Say(b"refuse", timeout=1.0)) is ErrorCode.INVALID_REQUEST
        assert await code_of(there.stub.Say(b"wait", timeout=1.0)) is ErrorCode.REQUEST_TIMED_OUT

    simulate(scenario)


def test_absent_server_receives_no_request() -> None:
    async def scenario(there: Harness) -> None:
        there.network.break_off(there.node)
        with pytest.raises(KafkaError) as refused:
            await there.stub.Say(b"hello", timeout=1.0)
        assert refused.value.metadata[NOT_SENT] == "true"
        assert there.echo.requests == 0

    simulate(scenario)


def test_killed_server_breaks_its_calls() -> None:
    async def scenario(there: Harness) -> None:
        waiting = asyncio.create_task(there.stub.Say(b"wait", timeout=60.0))
        await asyncio.sleep(1.0)
        there.node.killed = True
        there.network.break_off(there.node)
        assert await code_of(waiting) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert there.loop.time() < 2.0

    simulate(scenario)


def test_frozen_server_responds_late() -> None:
    async def scenario(there: Harness) -> None:
        there.node.paused = True
        there.loop.call_later(5.0, there.loop.resume, there.node)
        assert await there.stub.Say(b"hello", timeout=60.0) == b"hello"
        assert there.loop.time() > 5.0

    simulate(scenario)


def test_messages_are_lost_and_doubled() -> None:
    async def lost(there: Harness) -> None:
        assert await code_of(there.stub.Say(b"hello", timeout=60.0)) is not ErrorCode.NONE
        assert there.echo.requests == 0

    async def twice(there: Harness) -> None:
        assert await there.stub.Say(b"hello", timeout=60.0) == b"hello"
        await asyncio.sleep(1.0)
        assert there.echo.requests == 2

    simulate(lost, Rates(lost=1.0, twice=0.0))
    simulate(twice, Rates(lost=0.0, twice=1.0, slow=0.0))


def test_duplicate_is_delayed_and_dropped_after_the_faults_end() -> None:
    rates = Rates(lost=0.0, twice=1.0, slow=0.0, again=5.0)

    async def late(there: Harness) -> None:
        await there.stub.Say(b"go", timeout=60.0)
        assert there.echo.requests == 1
        await asyncio.sleep(6.0)
        assert there.echo.requests == 2

    async def healed(there: Harness) -> None:
        await there.stub.Say(b"go", timeout=60.0)
        there.faults.heal()
        await asyncio.sleep(6.0)
        assert there.echo.requests == 1

    simulate(late, rates)
    simulate(healed, rates)


def test_cut_drops_all_messages_until_healed() -> None:
    async def scenario(there: Harness) -> None:
        there.faults.cut(CLIENT, ADDRESS)
        assert await code_of(there.stub.Say(b"hello", timeout=1.0)) is not ErrorCode.NONE
        there.faults.uncut(CLIENT, ADDRESS)
        assert await code_of(there.stub.Say(b"hello", timeout=1.0)) is ErrorCode.NONE

    simulate(scenario)


def test_streams_keep_their_order_and_end() -> None:
    words = [b"%d" % number for number in range(50)]

    async def scenario(there: Harness) -> None:
        assert [response async for response in there.stub.Chat(stream_of(*words))] == words
        assert there.echo.ended

    simulate(scenario, Rates(lost=0.0, twice=0.0, slow=0.5))


def test_broken_stream_raises_an_error() -> None:
    async def chat(there: Harness, *words: bytes) -> None:
        async def requests() -> AsyncIterator[bytes]:
            for word in words:
                yield word
            await asyncio.Event().wait()

        async for _ in there.stub.Chat(requests()):
            there.loop.call_later(1.0, there.network.break_off, there.node)

    async def scenario(there: Harness) -> None:
        assert await code_of(chat(there, b"refuse")) is ErrorCode.INVALID_REQUEST
        assert await code_of(chat(there, b"hello")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await code_of(chat(there, b"hello")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await asyncio.sleep(1.0)
        assert there.echo.ended

    simulate(scenario)
