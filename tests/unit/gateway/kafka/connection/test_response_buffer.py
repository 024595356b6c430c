"""Responses of one connection."""

from __future__ import annotations

import asyncio

from sharebroker_server.gateway.kafka.connection.memory_budget import UnreadResponses
from sharebroker_server.gateway.kafka.connection.response_buffer import FLUSH_SIZE, ResponseBuffer


class Transport(asyncio.Transport):
    """Records what is written; `unread` is the size of its write buffer."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.unread = 0

    def is_closing(self) -> bool:
        return False

    def write(self, data: object) -> None:
        assert isinstance(data, bytearray)
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self.unread


def made() -> tuple[ResponseBuffer, Transport, UnreadResponses]:
    transport, unread = Transport(), UnreadResponses(1000)
    return ResponseBuffer(transport, unread, lambda: None), transport, unread


async def test_responses_that_follow_each_other_are_one_write() -> None:
    buffer, transport, _ = made()
    buffer.write(bytearray(b"a"), more=True)
    buffer.write(bytearray(b"b"), more=True)
    assert transport.written == []
    buffer.write(bytearray(b"c"), more=False)
    buffer.write(bytearray(b"d"), more=True)
    await asyncio.sleep(0)
    assert transport.written == [b"abc", b"d"]


async def test_a_large_batch_is_sent_at_once() -> None:
    buffer, transport, _ = made()
    buffer.write(bytearray(FLUSH_SIZE + 1), more=True)
    assert [len(one) for one in transport.written] == [FLUSH_SIZE + 1]


async def test_a_full_buffer_is_drained_when_the_client_reads() -> None:
    buffer, transport, unread = made()
    transport.unread = 700
    buffer.pause(100.0)
    assert (buffer.full, unread.bytes) == (True, 700)
    waiting = asyncio.ensure_future(buffer.drained())
    buffer.resume()
    await waiting
    assert (buffer.full, unread.bytes) == (False, 0)


async def test_a_client_that_reads_nothing_is_stalled() -> None:
    buffer, transport, _ = made()
    transport.unread = 700
    buffer.pause(100.0)
    assert not buffer.stalled(130.0, 30.0)
    assert buffer.stalled(130.1, 30.0)
    transport.unread = 600
    assert not buffer.stalled(131.0, 30.0), "it reads slowly"
    assert buffer.stalled(161.1, 30.0)
