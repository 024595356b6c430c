"""The durable writes of a share-partition: one at a time, so they reach the share coordinator in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import structlog

from services.share_partition_leader.core.in_flight import Transition
from services.share_partition_leader.core.partition import SharePartition
from services.share_partition_leader.core.values import StateWrite
from sharebroker.errors import ErrorCode, KafkaError

_log = structlog.get_logger()

Done = Callable[[KafkaError | None], None]
_Pending = Sequence[tuple[Transition, Done | None]]


class StateWriter(Protocol):
    """Makes the changes of one share-partition durable."""

    def begin(self, change: StateWrite) -> asyncio.Future[Any] | None:
        """On its way, where that needs no waiting; None, or a failure of it: `write` it."""

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
        "_completed",
        "_core",
        "_idle",
        "_pending",
        "_rested",
        "_state",
        "_task",
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
        self._pending: list[tuple[Transition, Done | None]] = []
        self._task: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[None] | None = None

    def add(self, transition: Transition, done: Done | None) -> None:
        """Have a change written; `done` hears of it."""
        self._pending.append((transition, done))
        if not self.busy:
            self.busy = True
            # In the loop's next turn: what this turn still brings goes out with it.
            asyncio.get_running_loop().call_soon(self._next)

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

    def _next(self) -> None:
        """Write what is pending. A task is made only where something has to be waited for on the way."""
        pending, self._pending = self._pending, []
        if not pending:
            self._rest()
            return
        change = self._core.write([transition for transition, _ in pending])
        self.told = change.start_offset
        begun = self._state.begin(change)
        if begun is None:
            self._wait(pending, change)
        else:
            begun.add_done_callback(partial(self._begun, pending, change))

    def _begun(self, pending: _Pending, change: StateWrite, begun: asyncio.Future[Any]) -> None:
        if begun.exception() is None:
            self._complete(pending, change, None)
        else:
            self._wait(pending, change)

    def _wait(self, pending: _Pending, change: StateWrite) -> None:
        self._task = asyncio.create_task(self._write(pending, change))

    async def _write(self, pending: _Pending, change: StateWrite) -> None:
        error = None
        try:
            await self._state.write(change, [transition for transition, _ in pending])
        except KafkaError as failure:
            error = failure
        except Exception:
            _log.exception("writing share state failed")
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._complete(pending, change, error)

    def _complete(self, pending: _Pending, change: StateWrite, error: KafkaError | None) -> None:
        if error is None:
            self.stored = change.start_offset
        transitions = [transition for transition, _ in pending]
        self._completed(Written(transitions, [done for _, done in pending if done is not None], error))
        self._next()

    def _rest(self) -> None:
        self.busy = False
        if self._idle is not None:
            self._idle.set_result(None)
            self._idle = None
        self._rested()
