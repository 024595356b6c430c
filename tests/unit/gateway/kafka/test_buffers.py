"""The request and response buffers of a connection, and the memory of all connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.gateway.kafka.buffers import (
    FLUSH_SIZE,
    READ_AHEAD,
    MemoryBudget,
    RequestBuffer,
    ResponseBuffer,
    UnreadResponses,
)
from sharebroker_server.kafka_wire.decoder import BadMessage


class Reading(asyncio.Transport):
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


def request_buffer(limit: int = 1 << 20) -> tuple[RequestBuffer, Reading, MemoryBudget]:
    transport, budget = Reading(), MemoryBudget(limit)
    return RequestBuffer(transport, 1 << 20, budget), transport, budget


def test_requests_are_removed_in_order() -> None:
    buffer, transport, budget = request_buffer()
    buffer.add(frame(10) + frame(20) + frame(30)[:5], 0.0)
    assert [len(buffer.first), len(buffer.pop()), len(buffer.pop())] == [10, 10, 20]
    assert not buffer
    assert not buffer.empty, "a part of a request remains"
    assert (transport.reading, budget.used) == (True, 0)


def test_bytes_beyond_read_ahead_need_the_budget() -> None:
    buffer, transport, budget = request_buffer()
    size = READ_AHEAD + 1000
    buffer.add(frame(size)[:8], 0.0)
    assert budget.used == 1000, "reserved from the start of the request"
    buffer.add(frame(size)[8:], 0.0)
    assert not transport.reading
    buffer.pop()
    buffer.done(size)
    assert (transport.reading, budget.used) == (True, 0)


def test_reading_pauses_until_the_budget_is_granted() -> None:
    buffer, transport, budget = request_buffer(5000)
    assert budget.reserve(4500, lambda: None)
    buffer.add(frame(READ_AHEAD + 1000)[:8], 0.0)
    assert (transport.reading, len(budget._waiting)) == (False, 1)
    budget.release(4500)
    assert (transport.reading, budget.used) == (True, 1000)
    buffer.close()
    assert budget.used == 0


def test_a_changed_limit_applies_to_the_next_request() -> None:
    buffer, _, _ = request_buffer()
    buffer.limit(10)
    with pytest.raises(BadMessage):
        buffer.add(frame(10) + frame(11), 0.0)
    assert len(buffer.pop()) == 10
    buffer, _, _ = request_buffer()
    buffer.limit(10)
    buffer.limit(11)
    buffer.add(frame(11), 0.0)
    assert len(buffer.pop()) == 11


def test_an_incomplete_request_stalls() -> None:
    buffer, _, _ = request_buffer()
    buffer.add(frame(10)[:6], 100.0)
    assert not buffer.stalled(130.0, 30.0)
    assert buffer.stalled(130.1, 30.0)


def test_requests_before_an_invalid_one_are_kept() -> None:
    buffer, _, _ = request_buffer()
    with pytest.raises(BadMessage):
        buffer.add(frame(10) + b"\xff\xff\xff\xff", 0.0)
    assert len(buffer.pop()) == 10


class Writing(asyncio.Transport):
    """Records written bytes; `unread` is the size of its write buffer."""

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


def response_buffer() -> tuple[ResponseBuffer, Writing, UnreadResponses]:
    transport, unread = Writing(), UnreadResponses(1000)
    return ResponseBuffer(transport, unread, lambda: None), transport, unread


async def test_responses_that_follow_each_other_are_one_write() -> None:
    buffer, transport, _ = response_buffer()
    buffer.write(bytearray(b"a"), more=True)
    buffer.write(bytearray(b"b"), more=True)
    assert transport.written == []
    buffer.write(bytearray(b"c"), more=False)
    buffer.write(bytearray(b"d"), more=True)
    await asyncio.sleep(0)
    assert transport.written == [b"abc", b"d"]


async def test_a_large_batch_is_sent_at_once() -> None:
    buffer, transport, _ = response_buffer()
    buffer.write(bytearray(FLUSH_SIZE + 1), more=True)
    assert [len(one) for one in transport.written] == [FLUSH_SIZE + 1]


async def test_a_full_buffer_is_drained_when_the_client_reads() -> None:
    buffer, transport, unread = response_buffer()
    transport.unread = 700
    buffer.pause(100.0)
    assert (buffer.full, unread.bytes) == (True, 700)
    waiting = asyncio.ensure_future(buffer.drained())
    buffer.resume()
    await waiting
    assert (buffer.full, unread.bytes) == (False, 0)


async def test_a_client_that_reads_nothing_is_stalled() -> None:
    buffer, transport, _ = response_buffer()
    transport.unread = 700
    buffer.pause(100.0)
    assert not buffer.stalled(130.0, 30.0)
    assert buffer.stalled(130.1, 30.0)
    transport.unread = 600
    assert not buffer.stalled(131.0, 30.0), "it reads slowly"
    assert buffer.stalled(161.1, 30.0)


class Requester:
    """A requester of memory; `has` is true once its reservation is granted."""

    def __init__(self, budget: MemoryBudget, size: int) -> None:
        self._budget = budget
        self.size = size
        self.has = budget.reserve(size, self._granted)

    def _granted(self) -> None:
        assert not self.has
        self.has = True

    def leave(self) -> None:
        if self.has:
            self._budget.release(self.size)
        else:
            self._budget.withdraw(self.size, self._granted)


def test_reservations_are_granted_in_order() -> None:
    budget = MemoryBudget(10)
    first, second, third = Requester(budget, 6), Requester(budget, 6), Requester(budget, 1)
    assert [first.has, second.has, third.has] == [True, False, False]
    assert (budget.used, len(budget._waiting)) == (6, 2)
    first.leave()
    assert [second.has, third.has] == [True, True]
    assert (budget.used, len(budget._waiting)) == (7, 0)


def test_a_request_larger_than_the_limit_is_admitted_alone() -> None:
    budget = MemoryBudget(10)
    small, giant, next_one = Requester(budget, 1), Requester(budget, 99), Requester(budget, 1)
    assert not giant.has
    small.leave()
    assert giant.has
    assert not next_one.has
    giant.leave()
    assert next_one.has


def test_a_withdrawn_reservation_admits_the_next() -> None:
    budget = MemoryBudget(10)
    holder, large, small = Requester(budget, 5), Requester(budget, 6), Requester(budget, 5)
    large.leave()
    assert small.has
    holder.leave()
    small.leave()
    assert (budget.used, len(budget._waiting)) == (0, 0)


@given(
    limit=st.integers(1, 50),
    sizes=st.lists(st.integers(1, 80), min_size=1, max_size=20),
    leaving=st.randoms(use_true_random=False),
)
def test_every_reservation_is_granted_or_withdrawn(
    limit: int, sizes: list[int], leaving: Callable[[], float]
) -> None:
    """In any order of departure, all are admitted in order and never above the limit."""
    budget = MemoryBudget(limit)
    requesters = [Requester(budget, size) for size in sizes]
    while requesters:
        held = [requester for requester in requesters if requester.has]
        assert sum(requester.size for requester in held) == budget.used
        assert budget.used <= limit or len(held) == 1
        assert held == requesters[: len(held)], "granted in order"
        leaver = leaving.choice(held if leaving.random() < 0.8 else requesters)  # type: ignore[attr-defined]  # Random
        leaver.leave()
        requesters.remove(leaver)
    assert (budget.used, len(budget._waiting)) == (0, 0)


def test_the_client_longest_without_reading_is_disconnected_first() -> None:
    untaken, gone = UnreadResponses(10), list[str]()
    drops = {name: (lambda name=name: gone.append(name)) for name in "abcd"}
    untaken.add(4, drops["a"])
    untaken.add(4, drops["b"])
    untaken.add(2, drops["c"])
    assert (untaken.bytes, gone) == (10, [])
    untaken.remove(drops["a"])
    untaken.remove(drops["a"])
    assert untaken.bytes == 6
    untaken.add(5, drops["a"])
    assert (untaken.bytes, gone) == (7, ["b"])
    untaken.add(9, drops["d"])
    assert (untaken.bytes, gone) == (9, ["b", "c", "a"])
    untaken.add(99, drops["b"])
    assert (untaken.bytes, gone) == (99, ["b", "c", "a", "d"]), "one alone may be as large as it is"
