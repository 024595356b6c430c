"""The durable writes of a share-partition: one at a time, so they reach the share coordinator in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import NamedTuple, Protocol

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateWrite
from sharebroker_server.persister.port import Begun, Changes, Persister
from sharebroker_server.share_partition_leader.core.in_flight import Transition
from sharebroker_server.share_partition_leader.core.partition import SharePartition

_log = structlog.get_logger()

Done = Callable[[KafkaError | None], None]
_Asked = tuple[Transition, Done | None]


class StateWriter(Protocol):
    """Makes the changes of one share-partition durable."""

    def due(self, writes: Writes) -> None:
        """In the loop's next turn `take` what is to be written, then call `end`, or `wait`."""

    async def write(self, change: StateWrite, transitions: Sequence[Transition]) -> None:
        """Write what transitions change. Raises KafkaError, in the codes that a consumer may see."""


class Written(NamedTuple):
    """Transitions that were written, or `error` says why not; `done` hear of it."""

    transitions: Sequence[Transition]
    done: Sequence[Done]
    error: KafkaError | None


class Writes:
    """What comes while a write is under way goes out together next.

    `completed` hears of each write, and `rested` when there is nothing to write any more.
    `told` is the start offset that was sent last, `stored` the one that was written last.
    """

    __slots__ = (
        "_change",
        "_completed",
        "_core",
        "_idle",
        "_pending",
        "_rested",
        "_state",
        "_task",
        "_under_way",
        "busy",
        "stored",
        "told",
    )

    def __init__(
        self,
        core: SharePartition,
        state: StateWriter,
        completed: Callable[[Written], None],
        rested: Callable[[], None],
    ) -> None:
        self.told = self.stored = core.loaded_start
        self.busy = False
        self._core = core
        self._state = state
        self._completed = completed
        self._rested = rested
        self._pending: list[_Asked] = []
        self._under_way: list[_Asked] = []
        self._change: StateWrite
        self._task: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[None] | None = None

    def add(self, transition: Transition, done: Done | None) -> None:
        """Have a change written; `done` hears of it. What this turn of the loop still brings goes with it."""
        self._pending.append((transition, done))
        if not self.busy:
            self.busy = True
            self._state.due(self)

    def refuse(self, error: KafkaError) -> None:
        """Refuse what is not on its way."""
        pending, self._pending = self._pending, []
        for _, done in pending:
            if done is not None:
                done(error)

    async def idle(self, timeout: float) -> None:
        """Wait until everything is written, at most `timeout` seconds."""
        if self.busy:
            self._idle = self._idle or asyncio.get_running_loop().create_future()
            await asyncio.wait([self._idle], timeout=timeout)

    def take(self) -> StateWrite | None:
        """What is to be written now; None where it was refused since."""
        self._under_way, self._pending = self._pending, []
        if not self._under_way:
            self._rest()
            return None
        self._change = self._core.write([transition for transition, _ in self._under_way])
        self.told = self._change.start_offset
        return self._change

    def wait(self) -> None:
        """What was taken has to be waited for, by a task."""
        self._task = asyncio.create_task(self._write())

    def end(self, error: KafkaError | None) -> None:
        """What was taken is durable, or why it is not."""
        if error is None:
            self.stored = self._change.start_offset
        under_way, self._under_way = self._under_way, []
        transitions = [transition for transition, _ in under_way]
        self._completed(Written(transitions, [done for _, done in under_way if done is not None], error))
        if self._pending:
            self._state.due(self)
        else:
            self._rest()

    async def _write(self) -> None:
        error = None
        try:
            await self._state.write(self._change, [transition for transition, _ in self._under_way])
        except KafkaError as failure:
            error = failure
        except Exception:
            _log.exception("writing share state failed")
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        self.end(error)

    def _rest(self) -> None:
        self.busy = False
        if self._idle is not None:
            self._idle.set_result(None)
            self._idle = None
        self._rested()


class Turns:
    """What share-partitions have to write goes out together: a shard's share of a turn of the loop at once.

    A task is made only where something has to be waited for on the way.
    """

    def __init__(self, persister: Persister) -> None:
        self._persister = persister
        self._due: dict[int, list[tuple[SharePartitionKey, Writes]]] = {}

    def add(self, shard: int, key: SharePartitionKey, writes: Writes) -> None:
        """The state of a share-partition, which this shard keeps, is to be written."""
        if not self._due:
            asyncio.get_running_loop().call_soon(self._go)
        self._due.setdefault(shard, []).append((key, writes))

    def _go(self) -> None:
        due, self._due = self._due, {}
        for shard, some in due.items():
            changes, taken = [], []
            for key, writes in some:
                change = writes.take()
                if change is not None:
                    changes.append((key, change))
                    taken.append(writes)
            if taken:
                self._begin(shard, changes, taken)

    def _begin(self, shard: int, changes: Changes, taken: Sequence[Writes]) -> None:
        try:
            begun = self._persister.begin(shard, changes)
        except Exception:
            _log.exception("writing share state could not begin")
            begun = None
        if begun is None:
            for writes in taken:
                writes.wait()
        else:
            begun.add_done_callback(partial(_begun, taken))


def _begun(taken: Sequence[Writes], begun: Begun) -> None:
    failure = begun.exception()
    for writes, outcome in zip(taken, begun.result() if failure is None else repeat(failure), strict=False):
        if isinstance(outcome, Exception):
            writes.wait()
            continue
        try:
            writes.end(None)
        except Exception:  # the others have to hear of theirs
            _log.exception("what was written could not be told")
