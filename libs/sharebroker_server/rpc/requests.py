"""The requests of each method: how they are received, their limits and their decoding."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from sharebroker_server.rpc.message_limits import message_limits
from sharebroker_server.rpc.receiving import Decoder, Receiver
from sharebroker_server.rpc.reflection import request_descriptor

if TYPE_CHECKING:  # the class of gRPC takes no parameters
    import grpc

    Context = grpc.aio.ServicerContext[Any, Any]


class MethodRequests(NamedTuple):
    """Receives and decodes the requests of one method."""

    receiver: Receiver
    decoder: Decoder

    @property
    def of_clients(self) -> bool:
        """Whether clients call the method; gRPC reads the requests of other methods."""
        return self.decoder.limits.of_clients

    async def data(self, request: Any, context: Context) -> Any:
        """Returns the request of a unary call, not decoded; gRPC has read those of internal methods."""
        return await self.receiver.receive(context) if self.of_clients else request

    async def message(self, data: bytes) -> Any:
        """Returns the message of a request."""
        return await self.receiver.decode(data, self.decoder)

    def messages(self, requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
        """Returns the messages of a stream."""
        if self.of_clients:
            return self.receiver.stream(requests, context.peer(), self.decoder)
        return self._internal(requests)

    async def _internal(self, requests: AsyncIterator[bytes]) -> AsyncIterator[Any]:
        async for data in requests:
            yield await self.receiver.decode(data, self.decoder)

    async def only_message(self, context: Context) -> Any:
        """Returns the message of a call whose handler is one of streams."""
        return await self.message(await self.receiver.receive(context))


class ListenerRequests:
    """The requests of all methods of a listener; they share the limit of late requests."""

    def __init__(self) -> None:
        self._receiver = Receiver()

    def of(self, method: str, parse: Callable[[bytes], Any]) -> MethodRequests:
        """Returns the requests of a method, given as /package.Service/Method."""
        decoder = Decoder(message_limits(method), parse, request_descriptor(method))
        return MethodRequests(self._receiver, decoder)
