"""Receives the requests of clients: limits how many are incomplete, how large they are, and their fields.

gRPC stores a message until it is complete, and reports nothing about it before. A client that never sends the
last byte could therefore use memory up to gRPC's limit with each of its calls. A message whose sender has all
of it ready arrives within milliseconds of its call. The others are `late`, and only some may be late at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import Turns
from sharebroker_server.process_memory import trim_memory
from sharebroker_server.rpc.field_count import Malformed, TooManyFields, count_fields
from sharebroker_server.rpc.message_limits import MAX_READ, UNCOUNTED, MessageLimits
from sharebroker_server.rpc.reads import completed
from sharebroker_server.rpc.stream_memory import StreamMemory

M = TypeVar("M")

PROMPT: Final = 0.1
"""Seconds after which a request that is still incomplete is late."""

MAX_LATE: Final = 24
"""Late requests of all clients at once. With `MAX_READ`, they use 408 MiB at most."""

TRIM_DELAY: Final = 1.0
"""Seconds after the end of a late request until freed memory is returned: that takes up to 50 ms."""

_RETRY_AFTER: Final = 0.5


class LateRequests:
    """Selects the request that ends when too many are late. A request is named by any hashable value."""

    __slots__ = ("_limit", "_peers")

    def __init__(self, limit: int = MAX_LATE) -> None:
        self._limit = limit
        self._peers: dict[Any, str] = {}

    def add(self, request: Any, peer: str) -> Any | None:
        """Adds a late request of a connection; returns the one to end, if any.

        It is the newest of the connection with the most late requests. If each has one, it is the oldest.
        """
        self._peers[request] = peer
        if len(self._peers) <= self._limit:
            return None
        (most, number), *_ = Counter(self._peers.values()).most_common(1)
        victims = [each for each, its_peer in self._peers.items() if number == 1 or its_peer == most]
        victim = victims[0] if number == 1 else victims[-1]
        del self._peers[victim]
        return victim

    def __len__(self) -> int:
        return len(self._peers)

    def discard(self, request: Any) -> None:
        """Removes a request that is complete or has ended."""
        self._peers.pop(request, None)


class _Reading:
    """A task that receives a message."""

    __slots__ = ("_ended", "_task")

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._ended = False

    def end(self) -> None:
        """Ends the receiving task."""
        assert self._task is not None
        self._ended = True
        self._task.cancel()

    async def received(self, message: Awaitable[M]) -> M:
        """Returns the message of a read. Raises THROTTLING_QUOTA_EXCEEDED after `end`."""
        self._task = task = asyncio.current_task()
        assert task is not None
        try:
            return await completed(message)
        except asyncio.CancelledError:
            if not self._ended:
                raise
            task.uncancel()
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                "The request is incomplete, and this server is receiving too many such requests.",
                retry_after=_RETRY_AFTER,
            ) from None


class Receiver:
    """Receives the requests of all methods of a listener."""

    def __init__(
        self,
        late: LateRequests | None = None,
        prompt: float = PROMPT,
        streams: StreamMemory | None = None,
        trim: Callable[[], None] = trim_memory,
    ) -> None:
        self._late = LateRequests() if late is None else late
        self._streams = streams or StreamMemory(late=lambda: len(self._late) * MAX_READ)
        self._prompt = prompt
        self._trim = trim
        self._trimming: asyncio.TimerHandle | None = None
        self._turns = Turns()

    async def receive(self, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        """Returns the only request of a call, not decoded.

        Raises KafkaError: INVALID_REQUEST if there is none, THROTTLING_QUOTA_EXCEEDED if it is late and too
        many are.
        """
        data = await self._read(context)
        if not isinstance(data, bytes):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The call ended without a request.")
        return data

    async def _read(self, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        request = _Reading()
        timer = asyncio.get_running_loop().call_later(self._prompt, self._is_late, request, context)
        try:
            return await request.received(context.read())
        finally:
            timer.cancel()
            self._late.discard(request)

    def _is_late(self, request: _Reading, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        victim = self._late.add(request, context.peer())
        if victim is not None:
            victim.end()
            if self._trimming is None:  # the allocator keeps what incomplete requests have used
                self._trimming = asyncio.get_running_loop().call_later(TRIM_DELAY, self._trim_memory)

    def _trim_memory(self) -> None:
        self._trimming = None
        self._trim()

    def stream(self, requests: AsyncIterator[bytes], peer: str, decoder: Decoder) -> ReceivedStream:
        """Returns the messages of a stream."""
        return ReceivedStream(self, self._streams, requests, peer, decoder)

    async def decode(self, data: bytes, decoder: Decoder) -> Any:
        """Returns a request as a message; counts its fields in turns if it is not small.

        Raises KafkaError: MESSAGE_TOO_LARGE, INVALID_REQUEST.
        """
        decoder.check_size(data)
        if decoder.counts(data) and (error := await self._counted(data, decoder)) is not None:
            raise error
        return decoder.parse(data)

    async def _counted(self, data: bytes, decoder: Decoder) -> KafkaError | None:
        """Returns the error of a request with too many fields.

        It is not raised here: the traceback of the exception that it would continue refers to the data.
        """
        try:
            for _ in decoder.count(data):
                await self._turns.next()
        except TooManyFields:
            return _too_many_fields(decoder.limits.max_fields)
        except Malformed:
            return _undecodable("it is malformed")
        return None


class ReceivedStream:
    """Receives and decodes the messages of a client's stream; one task at a time reads it.

    A read raises KafkaError: THROTTLING_QUOTA_EXCEEDED if unfinished messages use too much memory, and the
    errors of `Receiver.decode`.
    """

    __slots__ = ("_decoder", "_iterator", "_peer", "_reading", "_receiver", "_requests", "_streams", "size")

    def __init__(
        self,
        receiver: Receiver,
        streams: StreamMemory,
        requests: AsyncIterator[bytes],
        peer: str,
        decoder: Decoder,
    ) -> None:
        self.size = 0
        """The bytes of the last message."""
        self._receiver = receiver
        self._streams = streams
        self._requests = requests
        self._iterator: AsyncIterator[bytes] | None = None
        self._peer = peer
        self._decoder = decoder
        self._reading = _Reading()

    def __aiter__(self) -> ReceivedStream:
        return self

    async def __anext__(self) -> Any:
        if self._iterator is None:  # gRPC's iterator must be used once it is made
            self._iterator = aiter(self._requests)
        reading, streams = self._reading, self._streams
        streams.add(reading, self._peer)
        try:
            data = await reading.received(anext(self._iterator))
        finally:
            streams.discard(reading)
        self.size = len(data)
        if self.size <= UNCOUNTED:  # the usual case, without another coroutine
            return self._decoder.parse(data)
        return await self._receiver.decode(data, self._decoder)


def size_of(message: Message, messages: AsyncIterator[Any]) -> int:
    """Returns the bytes of a message, the last one of `messages`; `ByteSize` would encode it again."""
    return messages.size if isinstance(messages, ReceivedStream) else message.ByteSize()


class Decoder:
    """Decodes the requests of one method. `message` is None if gRPC has no descriptor of the method."""

    __slots__ = ("_parse", "limits", "message")

    def __init__(
        self, limits: MessageLimits, parse: Callable[[bytes], Any], message: Descriptor | None
    ) -> None:
        self.limits = limits
        self.message = message
        self._parse = parse

    def counts(self, data: bytes) -> bool:
        """Returns whether the fields of a request are counted before it is decoded."""
        return len(data) > UNCOUNTED and self.limits.of_clients and self.message is not None

    def count(self, data: bytes) -> Iterator[None]:
        """Counts the fields of a request; yields after each portion. Raises TooManyFields, Malformed."""
        assert self.message is not None
        assert self.limits.max_fields is not None
        return count_fields(data, self.message, self.limits.max_fields)

    def check_size(self, data: bytes) -> None:
        """Raises MESSAGE_TOO_LARGE."""
        if len(data) > self.limits.max_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"A message of {len(data)} bytes is larger than {self.limits.max_bytes}.",
                metadata={"max_message_bytes": str(self.limits.max_bytes)},
            )

    def parse(self, data: bytes) -> Any:
        """Returns the message. Raises INVALID_REQUEST."""
        try:
            return self._parse(data)
        except DecodeError as failure:
            raise _undecodable(str(failure)) from failure


def _undecodable(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, f"The message cannot be decoded: {reason}.")


def _too_many_fields(limit: int | None) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"The message has more than {limit} fields.",
        metadata={"max_message_fields": str(limit)},
    )
