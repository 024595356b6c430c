"""Received requests of one connection."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_server.gateway.kafka.connection.memory_budget import MemoryBudget
from sharebroker_server.gateway.kafka.connection.request_buffer import READ_AHEAD, RequestBuffer
from sharebroker_server.kafka_wire.decoder import BadMessage


class Transport(asyncio.Transport):
    """Records whether reading is paused."""

    reading = True

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


def frame(size: int) -> bytes:
    return size.to_bytes(4) + bytes(size)


def made(limit: int = 1 << 20) -> tuple[RequestBuffer, Transport, MemoryBudget]:
    transport, budget = Transport(), MemoryBudget(limit)
    return RequestBuffer(transport, 1 << 20, budget), transport, budget


def test_requests_are_removed_in_order() -> None:
    buffer, transport, budget = made()
    buffer.add(frame(10) + frame(20) + frame(30)[:5], 0.0)
    assert [len(buffer.first), len(buffer.pop()), len(buffer.pop())] == [10, 10, 20]
    assert not buffer
    assert not buffer.empty, "a part of a request is left"
    assert (transport.reading, budget.used) == (True, 0)


def test_bytes_beyond_read_ahead_need_the_budget() -> None:
    buffer, transport, budget = made()
    size = READ_AHEAD + 1000
    buffer.add(frame(size)[:8], 0.0)
    assert budget.used == 1000, "reserved from the start of the request"
    buffer.add(frame(size)[8:], 0.0)
    assert not transport.reading
    buffer.pop()
    buffer.done(size)
    assert (transport.reading, budget.used) == (True, 0)


def test_reading_pauses_until_the_budget_is_granted() -> None:
    buffer, transport, budget = made(5000)
    assert budget.reserve(4500, lambda: None)
    buffer.add(frame(READ_AHEAD + 1000)[:8], 0.0)
    assert (transport.reading, budget.waiting) == (False, 1)
    budget.release(4500)
    assert (transport.reading, budget.used) == (True, 1000)
    buffer.close()
    assert budget.used == 0


def test_an_incomplete_request_stalls() -> None:
    buffer, _, _ = made()
    buffer.add(frame(10)[:6], 100.0)
    assert not buffer.stalled(130.0, 30.0)
    assert buffer.stalled(130.1, 30.0)


def test_requests_before_an_invalid_one_are_kept() -> None:
    buffer, _, _ = made()
    with pytest.raises(BadMessage):
        buffer.add(frame(10) + b"\xff\xff\xff\xff", 0.0)
    assert len(buffer.pop()) == 10
