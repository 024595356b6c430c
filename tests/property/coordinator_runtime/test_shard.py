"""Random commands and faults: acknowledged writes survive, and every value read was written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from hypothesis import given, settings
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from tests.support.examples import scaled
from tests.testkit.memory.stream_log import Fault, MemoryStreamLog
from tests.unit.coordinator_runtime.harness import Get, Harness, Put


class Event(Enum):
    HOLD = "appends wait"
    RELEASE = "appends go on"
    AWAY = "the store becomes unavailable"
    BACK = "the store becomes available again"
    TURN = "the loop runs one iteration"
    TAKEOVER = "another process claims the shard"
    CLOSE = "the shard is handed over"


@dataclass(frozen=True)
class Write:
    """A write of this many records to a key."""

    key: str
    records: int


@dataclass(frozen=True)
class Read:
    """A read of a key."""

    key: str


class Flaky(MemoryStreamLog):
    """Appends take one loop iteration, and each takes its outcome from a plan, if there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.plan: deque[Fault | None] = deque()

    async def append(self, shard: str, epoch: int, first_position: int, payloads: Sequence[bytes]) -> None:
        await asyncio.sleep(0)
        await self._open.wait()  # an append that is cancelled while held must not leave its outcome behind
        fault = self.plan.popleft() if self.plan else None
        if fault is not None:
            self.fail_next_append(fault)
        await super().append(shard, epoch, first_position, payloads)


KEYS = ("a", "b", "c")
keys = st.sampled_from(KEYS)
writes = st.builds(Write, keys, st.integers(1, 5))
steps = st.lists(
    st.one_of(
        writes,
        writes,
        writes,
        st.builds(Read, keys),
        st.sampled_from([Event.TURN, Event.HOLD, Event.RELEASE]),
        st.tuples(st.sampled_from([None, None, *Fault]), st.sampled_from([None, *Fault])),
        st.sampled_from(list(Event)),
    ),
    min_size=5,
    max_size=40,
)


class History:
    """Runs steps. Values count up over all writes, so a later one shows that an earlier one was not lost."""

    def __init__(self, group_records: int) -> None:
        self.log = Flaky()
        self.harness = Harness(self.log, group_records=group_records, trim_records=3, drain_timeout=1.0)
        self.harness.memory = self.log
        self.next_value = 1
        self.writes: list[tuple[str, asyncio.Future[str]]] = []
        self.reads: list[tuple[int, asyncio.Future[str]]] = []
        self.tried: dict[str, set[int]] = {key: set() for key in KEYS}
        self.refusals: set[ErrorCode] = set()
        self.closing: list[asyncio.Task[None]] = []

    async def play(self, steps: list[object]) -> None:
        await self.harness.opened()
        for step in steps:
            if isinstance(step, Write):
                self.write(step)
            elif isinstance(step, Read):
                self.read(step)
            elif isinstance(step, tuple):
                self.log.plan.extend(step)
            elif isinstance(step, Event):
                await self.happen(step)
        await self.settle()

    def write(self, step: Write) -> None:
        values = range(self.next_value, self.next_value + step.records)
        self.next_value = values.stop
        with self.noting_refusals():
            future = self.harness.shard.submit(Put(step.key, tuple(map(str, values))))
            self.writes.append((step.key, future))
            self.tried[step.key].update(values)

    def read(self, step: Read) -> None:
        with self.noting_refusals():
            future = self.harness.shard.submit(Get(step.key))
            self.reads.append((self.answered(step.key), future))

    @contextmanager
    def noting_refusals(self) -> Iterator[None]:
        try:
            yield
        except KafkaError as rejected:
            self.refusals.add(rejected.code)

    async def happen(self, event: Event) -> None:
        memory = self.harness.memory
        if event is Event.HOLD:
            memory.hold()
        elif event is Event.RELEASE:
            memory.release()
        elif event in (Event.AWAY, Event.BACK):
            memory.away = event is Event.AWAY
        elif event is Event.TAKEOVER:
            memory.away = False
            self.harness = await self.harness.takeover()
        elif event is Event.CLOSE:
            self.closing.append(asyncio.create_task(self.harness.shard.close()))
        for _ in range(3):
            await asyncio.sleep(0)

    async def settle(self) -> None:
        self.harness.memory.release()
        self.harness.memory.away = False
        await asyncio.gather(*self.closing)
        waiting = [future for _, future in (*self.writes, *self.reads)]
        await asyncio.gather(*waiting, return_exceptions=True)

    def answered(self, key: str) -> int:
        """Returns the least value that every owner must return for a key from now on."""
        done = (future for one, future in self.writes if one == key and future.done())
        return max((int(future.result()) for future in done if not future.exception()), default=0)


async def scenario(steps: list[object], group_records: int) -> None:
    history = History(group_records)
    await history.play(steps)
    history.log.plan.clear()
    owner = await history.harness.takeover()
    for key in KEYS:
        found = int(await owner.get(key) or 0)
        assert found >= history.answered(key)
        assert found in history.tried[key] | {0}
    for known, read in history.reads:
        assert read.exception() or int(read.result() or 0) >= known
    assert all(code.retriable for code in history.refusals)
    assert await owner.put("last") == "1"
    await owner.shard.close()
    assert owner.shard.state is ShardState.CLOSED


@settings(max_examples=scaled(300), deadline=None)
@given(steps, st.sampled_from([2, 100]))
def test_no_acknowledged_write_is_lost(steps: list[object], group_records: int) -> None:
    asyncio.run(scenario(steps, group_records))
