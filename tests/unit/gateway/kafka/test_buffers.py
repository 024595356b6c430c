"""The request and response buffers of a connection, and the memory of all connections."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.gateway.kafka.buffers import (
    FLUSH_SIZE,
    GRACE,
    READ_AHEAD,
    TURN,
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


class Clock:
    """A clock that only tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def request_buffer(limit: int = 1 << 20) -> tuple[RequestBuffer, Reading, MemoryBudget]:
    transport, budget = Reading(), MemoryBudget(limit, Clock())
    return RequestBuffer(transport, 1 << 20, budget, lambda: None), transport, budget


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
    holder = Requester(budget, 4500)
    buffer.add(frame(READ_AHEAD + 1000)[:8], 0.0)
    assert (transport.reading, budget.waiting) == (False, 1)
    holder.leave()
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


def test_an_incomplete_request_has_an_age() -> None:
    buffer, _, _ = request_buffer()
    buffer.add(frame(10)[:6], 100.0)
    assert buffer.unfinished_for(130.0) == 30.0
    buffer.add(frame(10)[6:], 130.0)
    assert buffer.unfinished_for(140.0) == 0.0


def test_time_without_reading_does_not_age_a_request() -> None:
    """The client cannot complete it while the server does not read."""
    buffer, transport, budget = request_buffer(5000)
    holder = Requester(budget, 4500)
    buffer.add(frame(READ_AHEAD + 1000)[:8], 100.0)
    assert (transport.reading, buffer.unfinished_for(150.0)) == (False, 0.0)
    clock(budget).now = 150.0
    holder.leave()
    assert (transport.reading, buffer.unfinished_for(151.0)) == (True, 1.0)


def test_a_closed_buffer_keeps_no_part_of_a_request() -> None:
    buffer, _, budget = request_buffer()
    buffer.add(frame(READ_AHEAD + 1000)[:-1], 0.0)
    buffer.close()
    assert (buffer.empty, budget.used, buffer.unfinished_for(5.0)) == (True, 0, 0.0)
    buffer.close()
    assert budget.used == 0


def test_a_request_above_the_limit_of_its_key_reserves_nothing() -> None:
    transport, budget = Reading(), MemoryBudget(1 << 30, Clock())
    buffer = RequestBuffer(transport, 1 << 30, budget, lambda: None)
    head = (90 << 20).to_bytes(4)
    buffer.add(head, 0.0)
    assert budget.used > 80 << 20
    with pytest.raises(BadMessage):
        buffer.add((3).to_bytes(2), 0.0)
    assert (transport.reading, budget.used) == (True, 0)


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
    """A requester of memory; `has` is true once its reservation is granted.

    Its request is incomplete since `begun`, if it is. Its connection ends when it is evicted.
    """

    received = 0

    def __init__(self, budget: MemoryBudget, size: int, begun: float | None = None) -> None:
        self._budget = budget
        self.size = size
        self.begun = begun
        self.evicted = False
        self.has = budget.reserve(size, self)

    def granted(self) -> None:
        assert not self.has
        self.has = True
        if self.begun is not None:
            self.begun = self._budget.now()

    def unfinished_for(self, now: float) -> float:
        return 0.0 if self.begun is None else now - self.begun

    def evict(self) -> None:
        self.evicted = True
        self.leave()

    def leave(self) -> None:
        if self.has:
            self._budget.release(self.size, self)
        else:
            self._budget.withdraw(self)


def clock(budget: MemoryBudget) -> Clock:
    assert isinstance(budget.now, Clock)
    return budget.now


def test_the_smallest_reservation_is_granted_first() -> None:
    budget = MemoryBudget(10, Clock())
    first, second, third, fourth = (Requester(budget, size) for size in (6, 7, 5, 5))
    assert [first.has, second.has, third.has, fourth.has] == [True, False, False, False]
    assert (budget.used, budget.waiting) == (6, 3)
    first.leave()
    assert [second.has, third.has, fourth.has] == [False, True, True]
    third.leave()
    fourth.leave()
    assert second.has


def test_a_request_larger_than_the_limit_is_admitted_alone() -> None:
    budget = MemoryBudget(10, Clock())
    small, giant = Requester(budget, 1), Requester(budget, 99)
    assert not giant.has
    small.leave()
    assert giant.has
    next_one = Requester(budget, 1)
    assert not next_one.has
    giant.leave()
    assert next_one.has


def test_a_withdrawn_reservation_admits_the_next() -> None:
    budget = MemoryBudget(10, Clock())
    holder, large, small = Requester(budget, 5), Requester(budget, 6), Requester(budget, 7)
    large.leave()
    assert not small.has
    holder.leave()
    assert small.has
    small.leave()
    assert (budget.used, budget.waiting) == (0, 0)


def test_the_oldest_reservation_has_a_turn() -> None:
    """Smaller requests that arrive later, also ones that would fit, wait until it is granted."""
    budget = MemoryBudget(10, Clock())
    first, large = Requester(budget, 6), Requester(budget, 9)
    clock(budget).now += TURN
    assert Requester(budget, 1).has, "it is not yet its turn"
    clock(budget).now += 0.1
    small = Requester(budget, 1)
    assert not small.has
    first.leave()
    assert (large.has, small.has) == (True, False)


def test_turns_of_old_reservations_have_smaller_ones_in_between() -> None:
    budget = MemoryBudget(10, Clock())
    holder, *large = [Requester(budget, 10) for _ in range(3)]
    clock(budget).now += 10 * TURN
    small = [Requester(budget, 5) for _ in range(2)]
    holder.leave()
    assert [one.has for one in (*large, *small)] == [True, False, False, False]
    large[0].leave()
    assert [one.has for one in (large[1], *small)] == [False, True, True]


def test_large_reservations_do_not_starve() -> None:
    """Small requests arrive without end, and fill the memory; a large one waits for a bounded time."""
    budget = MemoryBudget(10, Clock())
    small = [Requester(budget, 3) for _ in range(5)]
    large = [Requester(budget, 10) for _ in range(4)]
    for _ in range(200):
        clock(budget).now += TURN / 10
        done = next(one for one in (*small, *large) if one.has)
        done.leave()
        if done in small:
            small.remove(done)
            small.append(Requester(budget, 3))
        else:
            large.remove(done)
        if not large:
            break
    assert not large
    assert clock(budget).now - 100.0 < 5 * (TURN + 1.0)


def test_incomplete_requests_are_evicted_while_others_wait() -> None:
    """The one with the most byte-seconds first, and no more than necessary."""
    budget = MemoryBudget(10, Clock())
    old, large, done = Requester(budget, 3, 91.0), Requester(budget, 4, 92.0), Requester(budget, 3)
    budget.relieve()
    assert [old.evicted, large.evicted] == [False, False], "none waits"
    waiting = Requester(budget, 4)
    budget.relieve()
    assert (old.evicted, large.evicted, done.evicted) == (False, True, False)
    assert waiting.has


def test_a_request_has_time_to_complete_after_its_reservation() -> None:
    """The client could not send the rest before."""
    budget = MemoryBudget(10, Clock())
    first, second, third = (Requester(budget, 8, 0.0) for _ in range(3))
    budget.relieve()
    budget.relieve()
    assert (first.evicted, second.has) == (True, True)
    budget.relieve()
    clock(budget).now += GRACE
    budget.relieve()
    assert not second.evicted
    clock(budget).now += 0.01
    budget.relieve()
    assert (second.evicted, third.has) == (True, True)


def test_incomplete_requests_are_evicted_for_all_that_wait() -> None:
    """One eviction at a time would delay the last of many clients for too long."""
    budget = MemoryBudget(10, Clock())
    holders = [Requester(budget, 2, 90.0) for _ in range(5)]
    waiting = [Requester(budget, 2) for _ in range(3)]
    budget.relieve()
    assert not any(holder.evicted for holder in holders), "they may still arrive"
    budget.relieve()
    assert [holder.evicted for holder in holders].count(True) == 3
    assert all(one.has for one in waiting)


def test_incomplete_requests_are_evicted_for_a_turn() -> None:
    budget = MemoryBudget(10, Clock())
    holders = [Requester(budget, 5, 100.0) for _ in range(2)]
    large = Requester(budget, 10)
    clock(budget).now += TURN + 0.1
    small = Requester(budget, 1)
    budget.relieve()
    budget.relieve()
    assert [holder.evicted for holder in holders] == [True, True]
    assert (large.has, small.has) == (True, False)


def test_complete_requests_are_never_evicted() -> None:
    budget = MemoryBudget(10, Clock())
    holder, waiting = Requester(budget, 10), Requester(budget, 10)
    clock(budget).now += 10 * TURN
    budget.relieve()
    budget.relieve()
    assert (holder.evicted, waiting.has) == (False, False)


@pytest.mark.parametrize(("arriving", "evicted"), [(25, False), (24, True), (0, True)])
def test_requests_that_a_busy_server_reads_late_are_not_evicted(arriving: int, evicted: bool) -> None:
    """A large one would be evicted first, before those whose clients have stopped."""
    budget = MemoryBudget(200, Clock())
    late, stopped = Requester(budget, 100, 90.0), Requester(budget, 90, 90.0)
    budget.relieve()
    waiting = Requester(budget, 40)
    late.received += arriving
    budget.relieve()
    assert (late.evicted, stopped.evicted) == (evicted, not evicted)
    assert waiting.has


def test_a_large_request_completes_beside_small_ones_that_stopped() -> None:
    time, lost = Clock(), list[str]()
    budget = MemoryBudget(8 * READ_AHEAD, time)

    def begun(name: str, size: int, arrived: int) -> tuple[RequestBuffer, bytes]:
        buffer = RequestBuffer(Reading(), 1 << 20, budget, lambda: lost.append(name))
        request = frame(size)
        buffer.add(request[:arrived], time.now)
        return buffer, request[arrived:]

    for number in range(3):
        begun(f"stopped{number}", 2 * READ_AHEAD, 2 * READ_AHEAD)
    large, rest = begun("large", 5 * READ_AHEAD, READ_AHEAD)
    begun("waiting", 4 * READ_AHEAD, 10)
    while rest:
        time.now += 2 * GRACE
        part, rest = rest[:READ_AHEAD], rest[READ_AHEAD:]
        large.add(part, time.now)
        budget.relieve()
    assert large
    assert lost
    assert "large" not in lost


def test_a_request_is_evicted_only_after_two_checks() -> None:
    """A busy server makes checks more than GRACE apart."""
    budget = MemoryBudget(10, Clock())
    budget.relieve()
    late, waiting = Requester(budget, 10, 100.0), Requester(budget, 5)
    clock(budget).now += 2 * GRACE
    budget.relieve()
    assert not late.evicted
    budget.relieve()
    assert late.evicted
    assert waiting.has


@given(
    limit=st.integers(1, 50),
    sizes=st.lists(st.integers(1, 80), min_size=1, max_size=20),
    random=st.randoms(use_true_random=False),
)
def test_every_reservation_is_granted_or_withdrawn(limit: int, sizes: list[int], random: Random) -> None:
    """In any order of departure and time, all are admitted and never above the limit.

    None waits that would fit, except while the oldest has its turn.
    """
    budget = MemoryBudget(limit, Clock())
    requesters: list[Requester] = []
    while sizes or requesters:
        clock(budget).now += random.choice([0.0, 0.5, TURN])
        if sizes and random.random() < 0.5:
            requesters.append(Requester(budget, sizes.pop()))
        elif requesters:
            held = [requester for requester in requesters if requester.has]
            leaver = random.choice(held if random.random() < 0.8 else requesters)
            leaver.leave()
            requesters.remove(leaver)
        held = [requester for requester in requesters if requester.has]
        waiting = [requester.size for requester in requesters if not requester.has]
        assert sum(requester.size for requester in held) == budget.used
        assert len(waiting) == budget.waiting
        assert budget.used <= limit or len(held) == 1
        turn = budget._overdue()
        least = min(waiting, default=0) if turn is None else turn.size
        assert not waiting or (held and budget.used + least > limit)
    assert (budget.used, budget.waiting) == (0, 0)


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
