"""The memory of unread messages: who waits, who is next, and which stream ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.gateway.unread_messages import GRACE, UnreadMessages, UnreadOfStream

LIMIT = 100


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Streams:
    """Streams by name; the part before the dot is the connection."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.clock = Clock()
        self.all = UnreadMessages(limit, self.clock)
        self.ended: list[str] = []
        self._streams: dict[str, UnreadOfStream] = {}

    def __getitem__(self, name: str) -> UnreadOfStream:
        if name not in self._streams:
            self._streams[name] = self.all.stream(name.partition(".")[0], lambda _: self.ended.append(name))
        return self._streams[name]

    async def reserve(self, name: str, size: int) -> asyncio.Task[None]:
        """Begins a reservation; it is done on return unless it waits."""
        task = asyncio.ensure_future(self[name].reserve(size))
        await asyncio.sleep(0)
        return task


@pytest.fixture
def streams() -> Streams:
    return Streams()


async def test_a_stream_waits_until_the_messages_of_others_are_read(streams: Streams) -> None:
    assert (await streams.reserve("a.1", 75)).done()
    waiting = await streams.reserve("a.2", 1)
    assert not waiting.done()
    streams["a.1"].read(75)
    await waiting
    assert streams.all.bytes == 1
    assert not streams.ended


async def test_the_last_quarter_is_for_connections_that_hold_nothing(streams: Streams) -> None:
    await streams.reserve("a.1", 75)
    crowd = [await streams.reserve(f"a.{n}", 1) for n in range(2, 50)]
    assert (await streams.reserve("b.1", 25)).done()
    assert not any(task.done() for task in crowd)
    assert not (await streams.reserve("c.1", 1)).done()
    for task in crowd:
        task.cancel()


async def test_the_connection_that_holds_least_is_next(streams: Streams) -> None:
    await streams.reserve("a.1", 60)
    await streams.reserve("b.1", 15)
    first, second = await streams.reserve("a.2", 20), await streams.reserve("b.2", 20)
    streams["a.1"].resize(60, 40)
    await second
    assert not first.done()
    streams["b.2"].read(20)
    await first


async def test_a_stream_that_is_not_read_ends_once_others_wait(streams: Streams) -> None:
    await streams.reserve("a.1", 40)
    await streams.reserve("a.2", 35)
    streams.clock.seconds += GRACE
    assert not streams.ended  # no other stream waits
    streams["a.1"].read(10)
    waiting = await streams.reserve("a.3", 40)
    await waiting
    assert streams.ended == ["a.2"]
    assert streams["a.1"].bytes == 30


async def test_no_stream_ends_within_its_grace(streams: Streams) -> None:
    await streams.reserve("a.1", 75)
    streams.clock.seconds += GRACE - 0.1
    waiting = await streams.reserve("a.2", 75)
    assert not waiting.done()
    assert not streams.ended
    streams.clock.seconds += 0.2
    other = await streams.reserve("a.3", 1)
    await waiting
    assert streams.ended == ["a.1"]
    other.cancel()


async def test_waiting_streams_are_checked_without_further_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharebroker_server.gateway.unread_messages.GRACE", 0.01)
    ended: list[str] = []
    unread = UnreadMessages(LIMIT)
    await unread.stream("a", lambda _: ended.append("a")).reserve(LIMIT)
    await unread.stream("b", lambda _: ended.append("b")).reserve(LIMIT)
    assert ended == ["a"]


async def test_a_message_above_the_limit_is_admitted_alone(streams: Streams) -> None:
    assert (await streams.reserve("a.1", 5 * LIMIT)).done()
    waiting = await streams.reserve("b.1", 5 * LIMIT)
    assert not waiting.done()
    streams["a.1"].close()
    await waiting


@pytest.mark.parametrize("granted", [False, True])
async def test_a_cancelled_reservation_holds_nothing(streams: Streams, granted: bool) -> None:
    await streams.reserve("a.1", LIMIT)
    cancelled, following = await streams.reserve("a.2", LIMIT), await streams.reserve("a.3", LIMIT)
    if granted:
        streams["a.1"].close()
    cancelled.cancel()
    with suppress(asyncio.CancelledError):
        await cancelled
    if not granted:
        streams["a.1"].close()
    await following
    assert streams.all.bytes == LIMIT


Step = tuple[int, int, str]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 60), st.sampled_from(["reserve", "read", "cancel"])))
)
async def test_the_limit_holds_and_the_last_reservation_is_granted(steps: list[Step]) -> None:
    streams = Streams()
    tasks: dict[int, asyncio.Task[None]] = {}
    for number, size, kind in steps:
        name, task = f"{number % 2}.{number}", tasks.get(number)
        if kind == "reserve" and (task is None or task.done()):
            tasks[number] = await streams.reserve(name, size)
        elif kind == "read":
            streams[name].read(min(size, streams[name].bytes))
        elif kind == "cancel" and task is not None:
            task.cancel()
        await asyncio.sleep(0)
        assert streams.all.bytes <= LIMIT
    await _until_granted(streams, tasks)
    for number in range(6):
        streams[f"{number % 2}.{number}"].close()
    assert (streams.all.bytes, streams.all.waiting) == (0, 0)


async def _until_granted(streams: Streams, tasks: dict[int, asyncio.Task[None]]) -> None:
    """Reads everything as long as a reservation waits; each turn must grant one."""

    def pending() -> list[int]:
        return [number for number, task in tasks.items() if not task.done()]

    while before := pending():
        for number in range(6):
            streams[f"{number % 2}.{number}"].close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(pending()) < len(before)
