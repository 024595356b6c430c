"""Calls between processes as gRPC makes them, without sockets: real stubs here, real servicers there.

Messages travel as bytes; chance loses, delays and doubles them, and breaks connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import grpc

from sharebroker_protocol.cancellation import end
from sharebroker_server.rpc.errors import ErrorInterceptor
from sharebroker_server.rpc.server import Service
from sharebroker_server.testkit.simulator.faults import Faults
from sharebroker_server.testkit.simulator.loop import SimulatedLoop
from sharebroker_server.testkit.simulator.node import Node, current
from sharebroker_server.testkit.simulator.streams import (
    Stream,
    StreamCall,
    answer_all,
    error,
    receive,
    send_all,
)

CLIENT: Final = "client"
"""The name of whoever calls from outside of every node."""

_REFUSED: Final = "failed to connect to all addresses"
_BROKEN: Final = "Connection reset by peer"
_ANSWER: Final = 0.5
"""Seconds that a port probe waits (see the failure detector in `leases`)."""


@dataclass(eq=False, slots=True)
class _Server:
    node: Node
    edge: ErrorInterceptor = field(default_factory=ErrorInterceptor)
    services: dict[str, Service] = field(default_factory=dict)
    handlers: dict[str, Any] = field(default_factory=dict)
    calls: dict[_Call, None] = field(default_factory=dict)
    _behind: dict[str, Any] = field(default_factory=dict)

    async def handler(self, method: str) -> Any:
        """What answers, behind the edge: most services and methods are never asked for, in any one run."""
        behind = self._behind.get(method)
        if behind is None:
            service = self.services.pop(method.split("/")[1], None)
            if service is not None:
                service.register(service.servicer, self)  # type: ignore[arg-type]  # all that registering needs
            behind = self._behind[method] = await _behind(self.edge, method, self.handlers[method])
        return behind

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """What generated code registers comes by method, too."""

    def add_registered_method_handlers(self, service: str, methods: dict[str, Any]) -> None:
        """As grpc.aio.Server has it."""
        self.handlers |= {f"/{service}/{method}": handler for method, handler in methods.items()}


@dataclass(eq=False, slots=True)
class _Call:
    caller: str
    address: str
    method: str
    data: bytes
    deadline: float | None
    answer: asyncio.Future[bytes]
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    ended: bool = False


class _Aborted(grpc.aio.AbortError):
    """What a servicer ends a call with."""

    def __init__(self, failure: grpc.aio.AioRpcError) -> None:
        self.failure = failure
        super().__init__()


class Network:
    """Processes by address. A call of an address where none serves is refused."""

    def __init__(self, loop: SimulatedLoop, faults: Faults) -> None:
        self.closed = False
        self._loop = loop
        self._faults = faults
        self._servers: dict[str, _Server] = {}
        self._streams: dict[Stream, None] = {}

    def dial(self, address: str, options: object = None) -> Channel:
        """A channel for whoever asks; stands for grpc.aio.insecure_channel."""
        return Channel(self, address)

    async def refused(self, address: str) -> bool:
        """Whether nobody listens at an address, and its machine says so: what stands still listens."""
        answer: asyncio.Future[bool] = self._loop.create_future()
        caller = current()
        name = CLIENT if caller is None else caller.name
        if self.closed or not self._faults.copies(name, address):
            self._later(_ANSWER, _settle, answer, False)
        else:
            self._later(self._faults.delay(), self._knock, address, answer)
        return await answer

    def _knock(self, address: str, answer: asyncio.Future[bool]) -> None:
        _settle(answer, address not in self._servers)

    async def serve(self, node: Node, services: Iterable[Service]) -> None:
        """Serve at the address that is the node's name, with the edge that every server has."""
        self._servers[node.name] = _Server(node, services={service.name: service for service in services})

    def break_off(self, node: Node) -> None:
        """A node is gone: calls and streams to it break, soon, and its own streams."""
        server = self._servers.pop(node.name, None)
        for call in server.calls if server is not None else ():
            self._later(self._faults.delay(), _fail, call.answer, grpc.StatusCode.UNAVAILABLE, _BROKEN)
        for stream in list(self._streams):
            if node.name in (stream.caller, stream.address):
                del self._streams[stream]
                stream.break_in(self._faults.delay())

    async def stop(self, node: Node, grace: float) -> None:
        """Take no more calls, let those under way end within `grace` seconds, then cut them."""
        server = self._servers.pop(node.name, None)
        if server is None:
            return
        streams = [stream for stream in self._streams if stream.address == node.name]
        tasks = [task for call in server.calls for task in call.tasks]
        tasks += [stream.server for stream in streams if stream.server is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        self.break_off(node)
        await end(tasks)

    async def unary(self, address: str, method: str, data: bytes, timeout: float | None) -> bytes:
        """The bytes of the answer. Raises AioRpcError."""
        loop, caller = self._loop, current()
        name = CLIENT if caller is None else caller.name
        deadline = None if timeout is None else loop.now + timeout
        answer: asyncio.Future[bytes] = loop.create_future()
        call = _Call(name, address, method, data, deadline, answer)
        self._send(name, address, call, self._arrive, call)
        late = (answer, grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
        timer = None if timeout is None else loop.call_later(timeout, _fail, *late)
        try:
            return await answer
        finally:
            if timer is not None:
                timer.cancel()
            if not call.ended:
                self._later(self._faults.delay(), _cancel, call)

    def stream(
        self, address: str, method: str, requests: AsyncIterator[Any], coding: tuple[Any, Any]
    ) -> StreamCall:
        """A stream to an address; `coding` serialises requests and reads answers."""
        caller = current()
        stream = Stream(self._loop, self._faults, CLIENT if caller is None else caller.name, address)
        self._streams[stream] = None
        sending = asyncio.create_task(send_all(stream, requests, coding[0]))
        if self.closed:
            stream.break_in(self._faults.delay())
        else:
            self._later(self._faults.delay(), self._open, stream, method)
        return StreamCall(stream, coding[1], sending)

    def _open(self, stream: Stream, method: str) -> None:
        server = self._servers.get(stream.address)
        if server is None:
            stream.responses.put(error(grpc.StatusCode.UNAVAILABLE, _REFUSED))
            self._streams.pop(stream, None)
        elif not stream.broken:
            stream.server = self._loop.spawn(server.node, self._serve_stream(server, stream, method))

    async def _serve_stream(self, server: _Server, stream: Stream, method: str) -> None:
        handler = await server.handler(method)
        requests = receive(stream, handler.request_deserializer)
        responses = handler.stream_stream(requests, _Context(self._loop, stream.caller, None))
        try:
            await answer_all(stream, responses, handler.response_serializer)
        except _Aborted as aborted:
            stream.send(stream.responses, aborted.failure)
        finally:
            self._streams.pop(stream, None)
            await responses.aclose()

    def _send(
        self, sender: str, receiver: str, call: _Call, arrive: Callable[..., object], *args: object
    ) -> None:
        copies = 0 if self.closed else self._faults.copies(sender, receiver)
        if copies:
            self._later(self._faults.delay(), arrive, *args)
        if copies > 1:
            self._later(self._faults.again(), self._arrive_again, arrive, *args)
        if not copies:
            self._later(self._faults.silence(), _fail, call.answer, grpc.StatusCode.UNAVAILABLE, _BROKEN)

    def _arrive_again(self, arrive: Callable[..., object], *args: object) -> None:
        """A second copy; none comes when all is well again."""
        if self._faults.rates.twice:
            arrive(*args)

    def _arrive(self, call: _Call) -> None:
        server = self._servers.get(call.address)
        if server is None:
            self._later(self._faults.delay(), _fail, call.answer, grpc.StatusCode.UNAVAILABLE, _REFUSED)
            return
        server.calls[call] = None
        handling = self._handle(server, call)
        call.tasks.append(self._loop.spawn(server.node, handling))

    async def _handle(self, server: _Server, call: _Call) -> None:
        handler = await server.handler(call.method)
        try:
            request = handler.request_deserializer(call.data)
            response = await handler.unary_unary(request, _Context(self._loop, call.caller, call.deadline))
            data = handler.response_serializer(response)
        except _Aborted as aborted:
            self._send(call.address, call.caller, call, _break, call.answer, aborted.failure)
        else:
            self._send(call.address, call.caller, call, _settle, call.answer, data)
        finally:
            call.ended = True
            server.calls.pop(call, None)

    def _later(self, delay: float, callback: Callable[..., object], *args: object) -> None:
        self._loop.call_outside(self._loop.now + delay, callback, *args)


class Channel:
    """As much of grpc.aio.Channel as generated stubs and the router use."""

    def __init__(self, network: Network, address: str) -> None:
        self._network = network
        self._address = address

    def unary_unary(
        self, method: str, request_serializer: Any, response_deserializer: Any, **_options: Any
    ) -> Callable[..., Any]:
        """As grpc.aio.Channel has it."""

        async def call(request: Any, *, timeout: float | None = None) -> Any:
            data = request_serializer(request)
            return response_deserializer(await self._network.unary(self._address, method, data, timeout))

        return call

    def stream_stream(
        self, method: str, request_serializer: Any, response_deserializer: Any, **_options: Any
    ) -> grpc.aio.StreamStreamMultiCallable[Any, Any]:
        """As grpc.aio.Channel has it."""
        return _Streaming(self._network, self._address, method, (request_serializer, response_deserializer))

    def get_state(self) -> grpc.ChannelConnectivity:
        """A channel may always be dropped: there is nothing to keep open."""
        return grpc.ChannelConnectivity.IDLE

    async def close(self, grace: float | None = None) -> None:
        """Nothing is open."""


class _Streaming(grpc.aio.StreamStreamMultiCallable[Any, Any]):
    """What a stub has for a streaming method."""

    def __init__(self, network: Network, address: str, method: str, coding: tuple[Any, Any]) -> None:
        self._network = network
        self._address = address
        self._method = method
        self._coding = coding

    def __call__(self, request_iterator: Any = None, *_args: Any, **_options: Any) -> Any:
        return self._network.stream(self._address, self._method, request_iterator, self._coding)


class _Context:
    """As much of grpc.aio.ServicerContext as servicers use."""

    def __init__(self, loop: SimulatedLoop, caller: str, deadline: float | None) -> None:
        self._loop = loop
        self._caller = caller
        self._deadline = deadline

    def time_remaining(self) -> float | None:
        return None if self._deadline is None else self._deadline - self._loop.now

    def peer(self) -> str:
        return f"simulated:{self._caller}"

    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> NoReturn:
        raise _Aborted(error(code, details, trailing_metadata))


async def _behind(edge: ErrorInterceptor, method: str, handler: Any) -> Any:
    async def proceed(_details: grpc.HandlerCallDetails) -> Any:
        return handler

    return await edge.intercept_service(proceed, _Details(method))


@dataclass(frozen=True, slots=True)
class _Details(grpc.HandlerCallDetails):
    method: str
    invocation_metadata: tuple[()] = ()


def _settle(answer: asyncio.Future[Any], result: object) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: asyncio.Future[bytes], code: grpc.StatusCode, details: str) -> None:
    _break(answer, error(code, details))


def _break(answer: asyncio.Future[bytes], failure: grpc.aio.AioRpcError) -> None:
    if not answer.done():
        answer.set_exception(failure)
        answer.exception()  # seen: the caller may be dead


def _cancel(call: _Call) -> None:
    """The caller has given up; a server that stands still will hear of it later."""
    for task in call.tasks:
        task.cancel()
