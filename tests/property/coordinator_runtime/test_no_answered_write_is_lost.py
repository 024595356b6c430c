"""Random commands and faults: what was answered stays, what was not answered is there whole or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum

from hypothesis import given
from hypothesis import strategies as st

from libs.coordinator_runtime.lifecycle import ShardState
from libs.stream_log.memory import Fault
from sharebroker.errors import DESCRIPTIONS, ErrorCode, KafkaError
from tests.unit.coordinator_runtime.ledger import Get, Put, Rig


class Event(Enum):
    HOLD = "appends wait"
    RELEASE = "appends go on"
    AWAY = "the store goes away"
    BACK = "the store comes back"
    TURN = "the loop gets a turn"
    TAKEOVER = "another process claims the shard"
    CLOSE = "the shard is handed over"


@dataclass
class Write:
    """A write to a key of its own, of so many records."""

    records: int


steps = st.lists(
    st.one_of(
        st.builds(Write, st.integers(1, 4)),
        st.builds(Write, st.integers(1, 4)),
        st.sampled_from(list(Fault)),
        st.sampled_from(list(Event)),
        st.just(Event.TURN),
        st.just("read"),
    ),
    max_size=40,
)


class History:
    """Writes one key after another; each value is the number of the record within its write."""

    def __init__(self, group_records: int) -> None:
        self.rig = Rig(group_records=group_records, trim_records=3, drain_timeout=1.0)
        self.writes: list[tuple[str, int, asyncio.Future[str] | None]] = []
        self.reads: list[tuple[dict[str, str], asyncio.Future[str], str]] = []
        self.refusals: set[ErrorCode] = set()
        self.closing: list[asyncio.Task[None]] = []

    async def play(self, steps: list[object]) -> None:
        await self.rig.opened()
        for step in steps:
            if isinstance(step, Write):
                self.write(step.records)
            elif isinstance(step, Fault):
                self.rig.memory.fail_next_append(step)
            elif isinstance(step, Event):
                await self.happen(step)
            else:
                self.read()
        await self.settle()

    def write(self, records: int) -> None:
        key = f"k{len(self.writes)}"
        try:
            future = self.rig.shard.submit(Put(key, tuple(str(n) for n in range(records))), timeout=60)
        except KafkaError as refused:
            self.refusals.add(refused.code)
            self.writes.append((key, records, None))
        else:
            self.writes.append((key, records, future))

    def read(self) -> None:
        if not self.writes:
            return
        key = self.writes[-1][0]
        try:
            self.reads.append((self.answered(), self.rig.shard.submit(Get(key), timeout=60), key))
        except KafkaError as refused:
            self.refusals.add(refused.code)

    async def happen(self, event: Event) -> None:
        memory = self.rig.memory
        if event is Event.HOLD:
            memory.hold()
        elif event is Event.RELEASE:
            memory.release()
        elif event in (Event.AWAY, Event.BACK):
            memory.away = event is Event.AWAY
        elif event is Event.TAKEOVER:
            memory.away = False
            self.rig = await self.rig.takeover()
        elif event is Event.CLOSE:
            self.closing.append(asyncio.create_task(self.rig.shard.close()))
        for _ in range(3):
            await asyncio.sleep(0)

    async def settle(self) -> None:
        self.rig.memory.release()
        self.rig.memory.away = False
        await asyncio.gather(*self.closing)
        futures = [future for _, _, future in self.writes if future is not None]
        await asyncio.gather(*futures, *(read for _, read, _ in self.reads), return_exceptions=True)

    def answered(self) -> dict[str, str]:
        """What every owner must know from here on."""
        return {
            key: future.result()
            for key, _, future in self.writes
            if future is not None and future.done() and not future.exception()
        }


def check(history: History, found: dict[str, str]) -> None:
    assert history.answered().items() <= found.items()
    assert all(DESCRIPTIONS[code].retriable for code in history.refusals)
    for key, records, _ in history.writes:
        # a decision larger than a group may stop short, but never has a hole
        assert found.get(key) in (None, *(str(n) for n in range(records)))
    for known, read, key in history.reads:
        if not read.exception() and key in known:
            assert read.result() == known[key]


@given(steps, st.sampled_from([2, 100]))
def test_no_answered_write_is_lost(steps: list[object], group_records: int) -> None:
    async def scenario() -> None:
        history = History(group_records)
        await history.play(steps)
        # faults that were not used up must not hit the one who looks
        while history.rig.memory._faults:
            history.rig.memory._faults.popleft()
        owner = await history.rig.takeover()
        found = {key: await owner.get(key) for key, _, _ in history.writes}
        check(history, {key: value for key, value in found.items() if value})
        if history.writes:
            assert await owner.put("last") == "1"
        await owner.shard.close()
        assert owner.shard.state is ShardState.CLOSED

    asyncio.run(scenario())
