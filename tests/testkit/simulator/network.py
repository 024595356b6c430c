"""gRPC calls between simulated processes without sockets: real stubs and real servicers.

Messages are transmitted as bytes; chance loses, delays and duplicates them, and breaks connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import grpc

from sharebroker_protocol.cancellation import end
from sharebroker_server.rpc.interceptor import ErrorInterceptor
from sharebroker_server.rpc.server import Service
from tests.testkit.simulator.faults import Faults
from tests.testkit.simulator.loop import SimulatedLoop
from tests.testkit.simulator.node import Node, current
from tests.testkit.simulator.streams import (
    Stream,
    StreamCall,
    error,
    receive,
    respond_all,
    send_all,
)

CLIENT: Final = "client"
"""The name of callers outside all nodes."""

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
        """Returns the handler of a method behind the interceptor; created on demand, since a run uses few."""
        behind = self._behind.get(method)
        if behind is None:
            service = self.services.pop(method.split("/")[1], None)
            if service is not None:
                service.register(service.servicer, self)  # type: ignore[arg-type]  # all that registering needs
            behind = self._behind[method] = await _behind(self.edge, method, self.handlers[method])
        return behind

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        """Ignored: generated code also registers by method."""

    def add_registered_method_handlers(self, service: str, methods: dict[str, Any]) -> None:
        """Registers handlers, as in grpc.aio.Server."""
        self.handlers |= {f"/{service}/{method}": handler for method, handler in methods.items()}


@dataclass(eq=False, slots=True)
class _Call:
    caller: str
    address: str
    method: str
    data: bytes
    deadline: float | None
    response: asyncio.Future[bytes]
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    ended: bool = False


class _Aborted(grpc.aio.AbortError):
    """Ends a call with an error of the servicer."""

    def __init__(self, failure: grpc.aio.AioRpcError) -> None:
        self.failure = failure
        super().__init__()


class Network:
    """Simulated processes by address. A call to an unused address is refused."""

    def __init__(self, loop: SimulatedLoop, faults: Faults) -> None:
        self.closed = False
        self._loop = loop
        self._faults = faults
        self._servers: dict[str, _Server] = {}
        self._streams: dict[Stream, None] = {}
        self.on_call: Callable[[str, bytes], float] = lambda *_: 0.0
        """Called with each request; returns by how many seconds it is late."""

    def dial(self, address: str, options: object = None) -> Channel:
        """Returns a channel for the caller; replaces grpc.aio.insecure_channel."""
        return Channel(self, address)

    async def refused(self, address: str) -> bool:
        """Returns whether the port is refused: a frozen process still listens."""
        response: asyncio.Future[bool] = self._loop.create_future()
        caller = current()
        name = CLIENT if caller is None else caller.name
        if self.closed or not self._faults.copies(name, address):
            self._later(_ANSWER, _resolve, response, False)
        else:
            self._later(self._faults.delay(), self._probe, address, response)
        return await response

    def _probe(self, address: str, response: asyncio.Future[bool]) -> None:
        _resolve(response, address not in self._servers)

    async def serve(self, node: Node, services: Iterable[Service]) -> None:
        """Serves at the address that is the node's name, with the interceptor of every server."""
        self._servers[node.name] = _Server(node, services={service.name: service for service in services})

    def break_off(self, node: Node) -> None:
        """Breaks calls and streams to a dead node, and its own streams."""
        server = self._servers.pop(node.name, None)
        for call in server.calls if server is not None else ():
            self._later(self._faults.delay(), _fail, call.response, grpc.StatusCode.UNAVAILABLE, _BROKEN)
        for stream in list(self._streams):
            if node.name in (stream.caller, stream.address):
                del self._streams[stream]
                stream.break_in(self._faults.delay())

    async def stop(self, node: Node, grace: float) -> None:
        """Rejects new calls, waits up to `grace` seconds for calls in flight, then cuts them."""
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
        """Returns the bytes of the response. Raises AioRpcError."""
        loop, caller = self._loop, current()
        name = CLIENT if caller is None else caller.name
        deadline = None if timeout is None else loop.now + timeout
        response: asyncio.Future[bytes] = loop.create_future()
        call = _Call(name, address, method, data, deadline, response)
        held = self.on_call(method, data)
        if held:
            self._later(held, self._arrive, call)
        else:
            self._send(name, address, call, self._arrive, call)
        late = (response, grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
        timer = None if timeout is None else loop.call_later(timeout, _fail, *late)
        try:
            return await response
        finally:
            if timer is not None:
                timer.cancel()
            if not call.ended:
                self._later(self._faults.delay(), _cancel, call)

    def stream(
        self, address: str, method: str, requests: AsyncIterator[Any], coding: tuple[Any, Any]
    ) -> StreamCall:
        """Opens a stream to an address; `coding` serialises requests and parses responses."""
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
        requests = receive(stream, bytes)
        responses = handler.stream_stream(requests, _Context(self._loop, stream.caller, None))
        try:
            await respond_all(stream, responses, handler.response_serializer)
        except _Aborted as aborted:
            stream.send(stream.responses, aborted.failure)
        finally:
            self._streams.pop(stream, None)
            # A read that still waits ends with its call, as in gRPC.
            stream.requests.put(error(grpc.StatusCode.CANCELLED, "The call has ended."))
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
            self._later(self._faults.silence(), _fail, call.response, grpc.StatusCode.UNAVAILABLE, _BROKEN)

    def _arrive_again(self, arrive: Callable[..., object], *args: object) -> None:
        """Delivers a second copy, unless the faults have ended."""
        if self._faults.rates.twice:
            arrive(*args)

    def _arrive(self, call: _Call) -> None:
        server = self._servers.get(call.address)
        if server is None:
            self._later(self._faults.delay(), _fail, call.response, grpc.StatusCode.UNAVAILABLE, _REFUSED)
            return
        server.calls[call] = None
        handling = self._handle(server, call)
        call.tasks.append(self._loop.spawn(server.node, handling))

    async def _handle(self, server: _Server, call: _Call) -> None:
        handler = await server.handler(call.method)
        try:
            serve = handler.unary_unary or handler.stream_unary
            response = await serve(call.data, _Context(self._loop, call.caller, call.deadline, call.data))
            data = handler.response_serializer(response)
        except _Aborted as aborted:
            self._send(call.address, call.caller, call, _break, call.response, aborted.failure)
        else:
            self._send(call.address, call.caller, call, _resolve, call.response, data)
        finally:
            call.ended = True
            server.calls.pop(call, None)

    def _later(self, delay: float, callback: Callable[..., object], *args: object) -> None:
        self._loop.call_outside(self._loop.now + delay, callback, *args)


class Channel:
    """The part of grpc.aio.Channel that stubs and the router use."""

    def __init__(self, network: Network, address: str) -> None:
        self._network = network
        self._address = address

    def unary_unary(
        self, method: str, request_serializer: Any, response_deserializer: Any, **_options: Any
    ) -> Callable[..., Any]:
        """Returns a unary call, as in grpc.aio.Channel."""

        async def call(request: Any, *, timeout: float | None = None) -> Any:
            data = request_serializer(request)
            return response_deserializer(await self._network.unary(self._address, method, data, timeout))

        return call

    def stream_stream(
        self, method: str, request_serializer: Any, response_deserializer: Any, **_options: Any
    ) -> grpc.aio.StreamStreamMultiCallable[Any, Any]:
        """Returns a streaming call, as in grpc.aio.Channel."""
        return _Streaming(self._network, self._address, method, (request_serializer, response_deserializer))

    def get_state(self) -> grpc.ChannelConnectivity:
        """Returns IDLE: a channel may be dropped at any time."""
        return grpc.ChannelConnectivity.IDLE

    async def close(self, grace: float | None = None) -> None:
        """Does nothing."""


class _Streaming(grpc.aio.StreamStreamMultiCallable[Any, Any]):
    """The callable of a streaming method."""

    def __init__(self, network: Network, address: str, method: str, coding: tuple[Any, Any]) -> None:
        self._network = network
        self._address = address
        self._method = method
        self._coding = coding

    def __call__(self, request_iterator: Any = None, *_args: Any, **_options: Any) -> Any:
        return self._network.stream(self._address, self._method, request_iterator, self._coding)


class _Context:
    """The part of grpc.aio.ServicerContext that servicers use."""

    def __init__(self, loop: SimulatedLoop, caller: str, deadline: float | None, data: bytes = b"") -> None:
        self._loop = loop
        self._data = data
        self._caller = caller
        self._deadline = deadline

    async def read(self) -> bytes:
        """Returns the only request of a call."""
        return self._data

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


def _resolve(response: asyncio.Future[Any], result: object) -> None:
    if not response.done():
        response.set_result(result)


def _fail(response: asyncio.Future[bytes], code: grpc.StatusCode, details: str) -> None:
    _break(response, error(code, details))


def _break(response: asyncio.Future[bytes], failure: grpc.aio.AioRpcError) -> None:
    if not response.done():
        response.set_exception(failure)
        response.exception()  # marks it as retrieved: the caller may be dead


def _cancel(call: _Call) -> None:
    """Cancels the call at the server; a frozen server processes this later."""
    for task in call.tasks:
        task.cancel()
