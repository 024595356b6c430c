"""Receiving requests: which one ends when too many are late, sizes, and counts of fields."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Sequence
from typing import Any, Final, cast

import grpc
import pytest
from google.protobuf.message import DecodeError

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_server.rpc import receiving as receiving_module
from sharebroker_server.rpc.message_limits import UNCOUNTED, MessageLimits
from sharebroker_server.rpc.receiving import Decoder, LateRequests, Receiver, size_of
from sharebroker_server.rpc.stream_memory import StreamMemory, StreamRead
from tests.testkit.waiting import eventually


@pytest.mark.parametrize(
    ("added", "ended"),
    [
        (["1 a", "2 b"], []),
        (["1 a", "2 b", "3 c", "4 d"], ["1", "2"]),  # each has one: the oldest
        (["1 a", "2 a", "3 b"], ["2"]),  # the newest of the connection with the most
        (["1 a", "2 b", "3 a", "4 a"], ["3", "4"]),
        (["1 a", "-1", "2 a", "3 b"], []),  # the first is complete
    ],
)
def test_connection_with_the_most_late_requests_loses_its_newest(
    added: Sequence[str], ended: Sequence[str]
) -> None:
    late, found = LateRequests(limit=2), []
    for name, *peer in map(str.split, added):
        if not peer:
            late.discard(name.removeprefix("-"))
        elif (victim := late.add(name, peer[0])) is not None:
            found.append(victim)
    assert found == ended


class Context:
    """A call whose request arrives when `arrives` is resolved."""

    def __init__(self, peer: str = "ipv4:127.0.0.1:1") -> None:
        self.arrives: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.reads = 0
        """Completed reads."""
        self._peer = peer

    async def read(self) -> object:
        data = await self.arrives
        self.reads += 1
        return data

    def peer(self) -> str:
        return self._peer


def received(receiver: Receiver, context: Context) -> asyncio.Task[bytes]:
    return asyncio.create_task(receiver.receive(cast("Any", context)))


async def test_request_is_received_whenever_it_arrives() -> None:
    context, receiver = Context(), Receiver(LateRequests(1), prompt=0)
    receiving = received(receiver, context)
    await asyncio.sleep(0.01)
    context.arrives.set_result(b"request")
    assert await receiving == b"request"


async def test_late_request_beyond_the_limit_ends_with_a_retriable_error() -> None:
    receiver = Receiver(LateRequests(1), prompt=0)
    first, second = received(receiver, Context("a")), received(receiver, Context("b"))
    with pytest.raises(KafkaError) as failure:
        await first
    assert failure.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert failure.value.retry_after
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    context = Context("c")
    third = received(receiver, context)  # the cancelled one no longer counts
    await asyncio.sleep(0.01)
    context.arrives.set_result(b"request")
    assert await third == b"request"


async def test_read_of_an_ended_request_completes() -> None:
    receiver, late, cancelled = Receiver(LateRequests(0), prompt=0), Context(), Context()
    with pytest.raises(KafkaError):
        await received(receiver, late)

    async def arriving() -> AsyncIterator[bytes]:
        yield cast("bytes", await cancelled.read())

    receiving = asyncio.create_task(anext(Receiver().stream(arriving(), "peer", decoder())))
    await asyncio.sleep(0.01)
    receiving.cancel()
    await asyncio.wait([receiving])
    for context in (late, cancelled):
        context.arrives.set_result(b"request")
    await eventually(lambda: late.reads == cancelled.reads == 1)


async def test_freed_memory_is_returned_after_late_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving_module, "TRIM_DELAY", 0.0)
    trimmed: list[int] = []
    receiver = Receiver(LateRequests(0), prompt=0, trim=lambda: trimmed.append(1))
    for _ in range(2):
        trimmed.clear()
        with pytest.raises(KafkaError):
            await received(receiver, Context())
        await eventually(lambda: trimmed == [1])


async def test_call_without_a_request_is_rejected() -> None:
    context = Context()
    context.arrives.set_result(grpc.aio.EOF)
    with pytest.raises(KafkaError) as failure:
        await received(Receiver(), context)
    assert failure.value.code is ErrorCode.INVALID_REQUEST


LIMITS: Final = MessageLimits(max_bytes=4 * UNCOUNTED, max_fields=1_000)


def decoder(limits: MessageLimits = LIMITS) -> Decoder:
    return Decoder(limits, pb.PublishRequest.FromString, pb.PublishRequest.DESCRIPTOR)


def elements(count: int) -> bytes:
    return pb.PublishRequest(records=[pb.PublishRecord()] * count).SerializeToString()


async def rejected(data: bytes, limits: MessageLimits = LIMITS) -> KafkaError:
    with pytest.raises(KafkaError) as failure:
        await Receiver().decode(data, decoder(limits))
    return failure.value


async def test_messages_within_the_limits_are_decoded() -> None:
    receiver = Receiver()
    large = pb.PublishRequest(records=[pb.PublishRecord(value=bytes(2 * UNCOUNTED))])
    assert await receiver.decode(large.SerializeToString(), decoder()) == large
    assert len((await receiver.decode(elements(UNCOUNTED // 2), decoder())).records) == UNCOUNTED // 2
    trusted = MessageLimits(LIMITS.max_bytes, None)
    assert len((await receiver.decode(elements(UNCOUNTED), decoder(trusted))).records) == UNCOUNTED


async def test_messages_beyond_the_limits_are_rejected() -> None:
    large = await rejected(bytes(LIMITS.max_bytes + 1))
    assert (large.code, large.metadata) == (
        ErrorCode.MESSAGE_TOO_LARGE,
        {"max_message_bytes": str(LIMITS.max_bytes)},
    )
    many = await rejected(elements(UNCOUNTED))
    assert (many.code, many.metadata) == (ErrorCode.INVALID_REQUEST, {"max_message_fields": "1000"})
    assert (await rejected(b"\xff" * 2 * UNCOUNTED)).code is ErrorCode.INVALID_REQUEST
    assert (await rejected(b"\xff")).code is ErrorCode.INVALID_REQUEST


async def test_each_message_of_a_stream_is_received_with_its_size() -> None:
    sent = [elements(1), elements(UNCOUNTED // 2), b"\xff"]

    async def arriving() -> AsyncIterator[bytes]:
        for data in sent:
            yield data

    stream = Receiver().stream(arriving(), "peer", decoder())
    assert stream.__aiter__() is stream
    for data in sent[:2]:
        message = await anext(stream)
        assert (message.SerializeToString(), size_of(message, stream)) == (data, len(data))
    with pytest.raises(KafkaError) as failure:
        await anext(stream)
    assert failure.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_stream_that_uses_too_much_memory_ends_while_it_awaits_a_message() -> None:
    class Memory(StreamMemory):
        """Ends each stream that begins to wait."""

        def add(self, read: StreamRead, peer: Hashable) -> None:
            super().add(read, peer)
            asyncio.get_running_loop().call_soon(read.end)

    async def silent() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    memory = Memory()
    stream = Receiver(streams=memory).stream(silent(), "peer", decoder())
    with pytest.raises(KafkaError) as failure:
        await anext(stream)
    assert failure.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert failure.value.retry_after
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


def test_size_of_a_message_that_was_not_received_is_computed() -> None:
    message = pb.PublishRequest(topic="t")
    assert size_of(message, cast("Any", iter(()))) == len(message.SerializeToString())


async def test_decoder_errors_become_kafka_errors() -> None:
    def fail(_: bytes) -> object:
        raise DecodeError("truncated")

    with pytest.raises(KafkaError, match="truncated"):
        await Receiver().decode(b"", Decoder(LIMITS, fail, None))
