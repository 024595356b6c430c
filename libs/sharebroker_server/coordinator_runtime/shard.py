"""The runtime of one shard: commands in, records to the log, answers when they are durable.

Commands are decided at once on the state that includes what is still being appended; what gathers during
an append goes out together as the next group. One task at most, none while there is nothing to write or load.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.lifecycle import ShardState, transition
from sharebroker_server.coordinator_runtime.load_failures import Trouble, decoded, replay
from sharebroker_server.coordinator_runtime.machine import A, C, Codec, Decision, Machine, R
from sharebroker_server.coordinator_runtime.pending import Pending, Waiter
from sharebroker_server.coordinator_runtime.settings import RuntimeSettings
from sharebroker_server.coordinator_runtime.timer import EarliestTimer
from sharebroker_server.coordinator_runtime.trimming import Trimming
from sharebroker_server.leases.ownership import Ownership
from sharebroker_server.stream_log.port import (
    LogError,
    LogFenced,
    LogNotWritten,
    LogOutcomeUnknown,
    LogRefused,
    StreamLog,
)

_logger = logging.getLogger(__name__)

T = TypeVar("T")


class ShardRuntime(Generic[C, R, A]):
    """One shard. `machine` makes an empty one for every load; `shard` names log and lease."""

    def __init__(
        self,
        shard: str,
        ownership: Ownership,
        log: StreamLog,
        machine: Callable[[], Machine[C, R, A]],
        codec: Codec[R],
        settings: RuntimeSettings,
    ) -> None:
        self.shard = shard
        self.state = ShardState.INITIAL
        self._ownership = ownership
        self._log = log
        self._new_machine = machine
        self._codec = codec
        self._settings = settings
        self._epoch = 0
        self._loads = 0
        self._machine = machine()
        self._pending = Pending(0)
        self._failures = 0
        self._must_reclaim = False
        self._refusal = ""
        self._refused_until = 0.0
        self._decided_in_vain = False
        self.trimming = Trimming(settings)
        self._trouble = Trouble(shard)
        self._task: asyncio.Task[None] | None = None
        self._deadline = EarliestTimer(self._on_deadline)
        self._expiry = EarliestTimer(self._on_expiry)
        self._growth: asyncio.Future[None] | None = None

    @property
    def epoch(self) -> int:
        """The lease's epoch, which every append carries."""
        return self._epoch

    @property
    def memory(self) -> tuple[int, int]:
        """Another one after every load: what was only in memory before is gone."""
        return self._epoch, self._loads

    def open(self, epoch: int) -> None:
        """Start loading under the lease's epoch; whoever held it before can append no more."""
        self._epoch = epoch
        self._move(ShardState.LOADING)
        self._wake()

    async def close(self) -> None:
        """Take no more commands, let what is under way become durable if it still can. Idempotent."""
        if self.state is ShardState.ACTIVE:
            self._move(ShardState.CLOSED)
            if self._task is not None:
                await asyncio.wait({self._task}, timeout=self._settings.drain_timeout)
        self._shut("the shard is handed over")
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def write(self, command: C, *, timeout: float) -> A:
        """The reply, once what it rests on is durable.

        Raises what the machine raises, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
        COORDINATOR_NOT_AVAILABLE, KAFKA_STORAGE_ERROR where the log refuses to grow, after `timeout` seconds
        REQUEST_TIMED_OUT (it may still become durable).
        """
        return await self.submit(command, timeout=timeout)

    def submit(self, command: C, *, timeout: float) -> asyncio.Future[A]:
        """`write` without waiting: decided when this returns. Refusals that are known at once are raised."""
        self._check_open()
        decision = self._decide(command)
        if decision.records:
            self._check_growing(asyncio.get_running_loop().time())
            self._take(decision.records)
        return self._answer(decision.reply, timeout, writes=bool(decision.records))

    def submit_all(self, commands: Sequence[C], *, timeout: float) -> asyncio.Future[list[A | KafkaError]]:
        """`submit` several at once: of each the reply, or why it was refused, when all is durable."""
        self._check_open()
        now, outcomes = asyncio.get_running_loop().time(), list[A | KafkaError]()
        for command in commands:
            try:
                decision = self._decide(command)
            except KafkaError as refusal:
                outcomes.append(refusal)
                continue
            if decision.records:
                self._check_growing(now)
                self._take(decision.records)
            outcomes.append(decision.reply)
        return self._answer(outcomes, timeout, writes=True)

    def at_once(self, command: C) -> A | None:
        """The reply to a command that neither writes nor brings a deadline nearer; raises as `write` does.

        None where it would rest on what is not durable yet: nothing was decided.
        """
        self._check_open()
        if self._pending:
            return None
        decision = self._decide(command)
        self._check_held()
        return decision.reply

    async def read(self, after: int, limit: int | None = None) -> list[tuple[int, R]]:
        """The next positions and records of the log behind `after`, at most a page or `limit`; [] at its end.

        Raises LogUnavailable, and ValueError for an entry that is no record.
        """
        entries = await self._log.read(self.shard, after, limit or self._settings.load_page)
        return decoded(self._codec, entries)

    def end(self) -> int:
        """Position of the last durable record. Raises as `write` does where the shard takes no commands."""
        self._check_active()
        self._check_held()
        return self._pending.durable

    async def grown(self, after: int, timeout: float) -> None:
        """Wait until a record behind `after` is durable, the shard fails or closes, or `timeout` seconds."""
        if self._pending.durable > after:
            return
        if self._growth is None:
            self._growth = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._growth,), timeout=timeout)

    async def recheck(self) -> None:
        """The log may have lost something: load it where it ends before memory. Raises LogUnavailable."""
        durable = self._pending.durable
        ends = await self._log.last_position(self.shard)
        if ends < durable <= self._pending.durable and self.state is ShardState.ACTIVE:
            self._fail(f"the log ends at {ends}, it had ended at {durable}")
            self._wake()

    def _decide(self, command: C) -> Decision[R, A]:
        try:
            return self._machine.decide(command, self._settings.clock())
        except KafkaError:
            # A refusal rests on memory as a reply does: a past owner's may be wrong by now.
            self._check_held()
            raise

    def _answer(self, reply: T, timeout: float, *, writes: bool) -> asyncio.Future[T]:
        """The reply, once all that was decided so far is durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if self._pending:
            deadline = loop.time() + timeout
            self._pending.wait(Waiter(self._pending.applied, deadline, reply, future, writes))
            self._expiry.arm(deadline)
        else:
            self._check_held()
            future.set_result(reply)
        self._arm_deadline()
        return future

    def _check_active(self) -> None:
        if self.state is not ShardState.ACTIVE:
            raise self._trouble.refusal(self.state)

    def _check_open(self) -> None:
        self._check_active()
        if self._decided_in_vain and asyncio.get_running_loop().time() >= self._refused_until:
            # A machine may remember what it meant to do, as that it is being done.
            self._fail("what was decided while the store refused is forgotten")
            self._failures = 0
            self._wake()
            self._check_active()
        if len(self._pending) >= self._settings.queue_limit:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{self.shard}: too much waits for the log",
                retry_after=0.1,
            )

    def _check_held(self) -> None:
        # no append will tell whether the lease is still ours
        if not self._ownership.holds(self._epoch):
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{self.shard}: the lease is not surely ours")

    def _check_growing(self, now: float) -> None:
        if now < self._refused_until:
            self._decided_in_vain = True
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{self.shard}: {self._refusal}",
                retry_after=self._refused_until - now,
            )

    def _take(self, records: Sequence[R]) -> None:
        # encoded first: a record that has no bytes must not reach memory
        payloads = [self._codec.encode(record) for record in records]
        self._wake()
        try:
            for position, record in enumerate(records, self._pending.applied + 1):
                self._machine.apply(record, position)
        except Exception:
            self._fail("a record could not be applied")
            raise
        self._pending.add(payloads)

    # The task

    def _wake(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name=self.shard)

    async def _work(self) -> None:
        try:
            while True:
                if self.state in (ShardState.LOADING, ShardState.FAILED):
                    await self._recover()
                elif self._pending.applied > self._pending.durable:
                    await self._append()
                else:
                    return
        finally:
            self._task = None

    async def _append(self) -> None:
        pending, settings = self._pending, self._settings
        group = pending.cut(settings.group_records, settings.group_bytes)
        try:
            await self._log.append(self.shard, self._epoch, pending.durable + 1, group)
        except LogFenced:
            self._shut("another process owns the shard")
        except LogRefused as error:
            self._refused(error.reason.removeprefix(f"{self.shard}: "))
        except LogNotWritten as error:
            self._fail(f"not written: {error.reason}")
        except Exception as error:
            # it may lie in the log, or reach it late: a higher epoch settles which
            if not isinstance(error, LogOutcomeUnknown):
                _logger.exception("%s: the log failed in a way it does not promise", self.shard)
            self._must_reclaim = True
            self._fail("the log did not answer")
        else:
            if self.state is not ShardState.FAILED:
                self._failures = 0
                pending.commit(len(group))
                self._tell_growth()
                await self._trim()

    async def _trim(self) -> None:
        before = self.trimming.due(self._machine, self._pending, asyncio.get_running_loop().time())
        if before is None:
            return
        try:
            await self._log.trim(self.shard, self._epoch, before)
            self.trimming.before = before
        except LogFenced:
            self._shut("another process owns the shard")
        except LogError as error:
            _logger.warning("%s: not trimmed: %s", self.shard, error)

    async def _recover(self) -> None:
        await asyncio.sleep(self._settings.backoff(self._failures))
        try:
            if self._must_reclaim:
                self._epoch = await self._ownership.reclaim()
                self._must_reclaim = False
            if self.state is ShardState.FAILED:
                self._move(ShardState.LOADING)
            await self._load()
        except Exception as error:
            self._trouble.met(error, asyncio.get_running_loop().time())
            self._fail("the log cannot be read")
        else:
            self._trouble.over()
            self._move(ShardState.ACTIVE)
            self._arm_deadline()

    async def _load(self) -> None:
        machine, position, records = self._new_machine(), 0, 0
        while page := await self.read(position):
            replay(machine, page)
            position = page[-1][0]
            records += len(page)
        # a log that was trimmed to nothing still knows where it ended
        position = max(position, await self._log.last_position(self.shard))
        self._machine, self._pending, self._decided_in_vain = machine, Pending(position), False
        self.trimming.loaded(position - records, asyncio.get_running_loop().time())
        self._loads += 1

    # Ends

    def _fail(self, reason: str) -> None:
        """Memory and log may differ: throw memory away."""
        if self.state is ShardState.CLOSED:
            self._shut(reason)
            return
        self._failures += 1
        if self.state is not ShardState.FAILED:
            self._move(ShardState.FAILED)
        self._abandon(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)

    def _refused(self, reason: str) -> None:
        """The log does not grow for now. Memory is loaded again at once: what reads can go on."""
        self._refusal = f"the store refused: {reason}"
        self._refused_until = asyncio.get_running_loop().time() + self._settings.refusal_pause
        self._pending.abandon(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{self.shard}: {self._refusal}",
            reading=ErrorCode.COORDINATOR_NOT_AVAILABLE,
        )
        self._fail(self._refusal)
        self._failures = 0

    def _shut(self, reason: str) -> None:
        if self.state is not ShardState.CLOSED:
            self._move(ShardState.CLOSED)
        self._abandon(ErrorCode.NOT_COORDINATOR, reason)

    def _abandon(self, code: ErrorCode, reason: str) -> None:
        self._pending.abandon(code, f"{self.shard}: {reason}")
        self.trimming.forget()
        self._tell_growth()
        self._deadline.cancel()
        self._expiry.cancel()

    def _move(self, to: ShardState) -> None:
        self.state = transition(self.state, to)

    def _tell_growth(self) -> None:
        if self._growth is not None:
            self._growth.set_result(None)
            self._growth = None

    # Timers

    def _arm_deadline(self) -> None:
        deadline = self._machine.next_deadline()
        if deadline is not None:
            delay = max(deadline - self._settings.clock(), self._settings.timer_floor)
            self._deadline.arm(max(asyncio.get_running_loop().time() + delay, self._refused_until))

    def _on_deadline(self) -> None:
        if self.state is not ShardState.ACTIVE:
            return
        # What is due in a process that stood still need not be: its members may be with another owner.
        held = self._ownership.holds(self._epoch)
        growing = asyncio.get_running_loop().time() >= self._refused_until
        if held and growing and len(self._pending) < self._settings.queue_limit:
            records = self._machine.on_deadline(self._settings.clock())
            if records:
                self._take(records)
        self._arm_deadline()

    def _on_expiry(self) -> None:
        now = asyncio.get_running_loop().time()
        earliest = self._pending.expire(now)
        if earliest is not None:
            self._expiry.arm(max(earliest, now + self._settings.timer_floor))
