"""The runtime of one shard; the package docstring has its theory of operation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.lifecycle import (
    LoadFailureReporter,
    ShardState,
    decoded,
    replay,
    transition,
)
from sharebroker_server.coordinator_runtime.machine import A, C, Decision, Machine, R, RecordCodec
from sharebroker_server.coordinator_runtime.pending import (
    PendingRecords,
    Perform,
    Waiter,
    no_effects,
    perform_all,
    resolve,
)
from sharebroker_server.leases.port import Ownership
from sharebroker_server.stream_log.port import (
    LogError,
    LogFenced,
    LogNotWritten,
    LogOutcomeUnknown,
    LogRefused,
    StreamLog,
)

_log = structlog.get_logger()

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """The settings of every shard of a process; times in seconds.

    * `write_timeout`: time in which the records of a command must become durable.
    * `queue_limit`: pending commands and records of a shard.
    * `group_records`, `group_bytes`: records of one append. `load_page`: records of one read during a load.
    * `trim_records`, `trim_interval`: the log is trimmed at the next append after either.
    * `backoff_first`, `backoff_most`: the pause before a failed load is retried, doubled up to the maximum.
    * `refusal_pause`: time without appends after the store rejected one; reads continue. `deadline_pause`:
      time without deadlines then, because the load that follows a rejected append costs soft state.
    * `drain_timeout`: time that closing waits for pending records.
    * `timer_floor`: the shortest timer. `clock`: seconds since the Unix epoch.
    """

    write_timeout: float = 5.0
    queue_limit: int = 20_000
    group_records: int = 2_000
    group_bytes: int = 4 * 1024 * 1024
    load_page: int = 1_000
    trim_records: int = 1_000
    trim_interval: float = 300.0
    backoff_first: float = 0.05
    backoff_most: float = 1.0
    refusal_pause: float = 0.5
    deadline_pause: float = 5.0
    drain_timeout: float = 5.0
    timer_floor: float = 0.01
    clock: Callable[[], float] = now

    def backoff(self, failures: int) -> float:
        """Returns the pause before the next load after `failures` consecutive failures; 0 after the first."""
        if failures < 2:
            return 0.0
        return min(self.backoff_first * 2.0 ** min(failures - 2, 32), self.backoff_most)


class ShardRuntime(Generic[C, R, A]):
    """One shard. `machine` returns an empty machine for each load; `shard` names the log and the lease."""

    def __init__(
        self,
        shard: str,
        ownership: Ownership,
        log: StreamLog,
        machine: Callable[[], Machine[C, R, A]],
        codec: RecordCodec[R],
        settings: RuntimeSettings,
    ) -> None:
        self.shard = shard
        self.state = ShardState.INITIAL
        self._ownership = ownership
        self._stream_log = log
        self._new_machine = machine
        self._codec = codec
        self._settings = settings
        self._perform: Perform = no_effects
        self.epoch = 0
        self._loads = 0
        self._machine = machine()
        self._pending = PendingRecords(0)
        self._failures = 0
        self._must_reclaim = False
        self._refusal = ""
        self._refused_until = 0.0
        self._deadlines_from = 0.0
        self.trimming = Trimming(settings)
        self._load_failures = LoadFailureReporter(shard)
        self._task: asyncio.Task[None] | None = None
        self._deadline = EarliestTimer(self._on_deadline)
        self._expiry = EarliestTimer(self._on_expiry)
        self._appended: asyncio.Future[None] | None = None

    @property
    def load_generation(self) -> tuple[int, int]:
        """A value that changes with every load: soft state and queued effects of earlier loads are lost."""
        return self.epoch, self._loads

    def open(self, epoch: int, perform: Perform = no_effects) -> None:
        """Starts loading under a lease epoch, which fences former owners; `perform` executes effects."""
        self.epoch, self._perform = epoch, perform
        self._move(ShardState.LOADING)
        self._wake()

    async def close(self) -> None:
        """Stops accepting commands and waits up to `drain_timeout` for pending records. Idempotent."""
        if self.state is ShardState.ACTIVE:
            self._move(ShardState.CLOSED)
            if self._task is not None:
                await asyncio.wait({self._task}, timeout=self._settings.drain_timeout)
        self._shut("the shard is handed over")
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def submit(self, command: C) -> asyncio.Future[A]:
        """Decides and accepts a command before it returns.

        The future completes with the reply once the records that the reply depends on are durable.

        Raises the machine's errors, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
        and KAFKA_STORAGE_ERROR if the store rejects appends. The future fails with one of them, too, or with
        REQUEST_TIMED_OUT after `write_timeout` seconds (the records may still become durable).
        """
        self._check_open()
        decision = self._decide(command)
        self._accept(decision)
        return self._reply(decision.reply, writes=bool(decision.records))

    def submit_all(self, commands: Sequence[C]) -> asyncio.Future[list[A | KafkaError]]:
        """Submits several commands; the future completes with each reply or error once all are durable."""
        self._check_open()
        outcomes = list[A | KafkaError]()
        for command in commands:
            try:
                decision = self._decide(command)
            except KafkaError as error:
                outcomes.append(error)
                continue
            self._accept(decision)
            outcomes.append(decision.reply)
        if not self._pending:
            self._check_lease()
        return self._reply(outcomes, writes=True)

    def try_read(self, command: C) -> A | None:
        """Returns the reply to a command without records; None, undecided, if any record is pending.

        The command must not make a deadline earlier. Raises as `submit` does.
        """
        self._check_open()
        if self._pending:
            return None
        decision = self._decide(command)
        self._accept(decision)
        return decision.reply

    async def read(self, after: int, limit: int | None = None) -> list[tuple[int, R]]:
        """Returns positions and records after a position, at most `limit` or a page; [] at the end.

        Raises LogUnavailable, and ValueError for an invalid entry.
        """
        entries = await self._stream_log.read(self.shard, after, limit or self._settings.load_page)
        return decoded(self._codec, entries)

    def end(self) -> int:
        """Returns the position of the last durable record. Raises as `submit` does."""
        self._check_active()
        self._check_lease()
        return self._pending.durable

    async def wait_for_append(self, after: int, timeout: float) -> None:
        """Waits up to `timeout` seconds for a durable record after `after`, or the end of the shard."""
        if self._pending.durable > after:
            return
        if self._appended is None:
            self._appended = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._appended,), timeout=timeout)

    async def recheck(self) -> None:
        """Reloads the shard if its log lost records that memory contains. Raises LogUnavailable."""
        durable = self._pending.durable
        ends = await self._stream_log.last_position(self.shard)
        if ends < durable <= self._pending.durable and self.state is ShardState.ACTIVE:
            self._fail(f"the log ends at {ends}; it ended at {durable} before")
            self._wake()

    # Commands

    def _decide(self, command: C) -> Decision[R, A]:
        try:
            return self._machine.decide(command, self._settings.clock())
        except KafkaError:
            # An error depends on memory as a reply does: the memory of a former owner may be outdated.
            self._check_lease()
            raise

    def _accept(self, decision: Decision[R, A] | Decision[R, None]) -> None:
        """Commits a decision to memory, or raises and discards it as a whole."""
        if decision.records:
            self._check_store()
            self._apply(decision.records)
        elif not self._pending:
            self._check_lease()
        for change in decision.soft:
            self._machine.apply_soft(change)
        if self._pending:
            self._pending.add_effects(decision.effects)
        else:
            perform_all(self._perform, decision.effects, self.shard)

    def _apply(self, records: Sequence[R]) -> None:
        # Encode first: a record that cannot be encoded must not reach memory.
        payloads = [self._codec.encode(record) for record in records]
        self._wake()
        try:
            for position, record in enumerate(records, self._pending.applied + 1):
                self._machine.apply(record, position)
        except Exception:
            self._fail("a record could not be applied")
            raise
        self._pending.add(payloads)

    def _reply(self, reply: T, *, writes: bool) -> asyncio.Future[T]:
        """Returns a future of the reply that completes once all records accepted so far are durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if self._pending:
            deadline = loop.time() + self._settings.write_timeout
            self._pending.wait(Waiter(self._pending.applied, deadline, reply, future, writes))
            self._expiry.arm(deadline)
        else:
            resolve(future, reply)
        self._arm_deadline()
        return future

    # Checks

    def _check_active(self) -> None:
        if self.state is not ShardState.ACTIVE:
            raise self._load_failures.rejection(self.state)

    def _check_open(self) -> None:
        self._check_active()
        if len(self._pending) >= self._settings.queue_limit:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.shard}: write queue full", retry_after=0.1
            )

    def _check_lease(self) -> None:
        if not self._ownership.holds(self.epoch):
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{self.shard}: lease may have expired")

    def _check_store(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._refused_until:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{self.shard}: {self._refusal}",
                retry_after=self._refused_until - now,
            )

    # The task that loads and appends; it runs only while there is work

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
            await self._stream_log.append(self.shard, self.epoch, pending.durable + 1, group)
        except LogFenced:
            self._shut("another process owns the shard")
        except LogRefused as error:
            self._refused(error.reason.removeprefix(f"{self.shard}: "))
        except LogNotWritten as error:
            self._fail(f"not written: {error.reason}")
        except Exception as error:
            # The append may be in the log, or arrive later: claiming a higher epoch decides which.
            if not isinstance(error, LogOutcomeUnknown):
                _log.exception("log raised an unexpected error", shard=self.shard)
            self._must_reclaim = True
            self._fail("the log did not reply")
        else:
            if self.state is not ShardState.FAILED:
                self._failures = 0
                perform_all(self._perform, pending.commit(len(group)), self.shard)
                self._notify_append()
                await self._trim()

    async def _trim(self) -> None:
        before = self.trimming.due(self._machine, self._pending, asyncio.get_running_loop().time())
        if before is None:
            return
        try:
            await self._stream_log.trim(self.shard, self.epoch, before)
            self.trimming.before = before
        except LogFenced:
            self._shut("another process owns the shard")
        except LogError as error:
            _log.warning("log not trimmed", shard=self.shard, error=str(error))

    async def _recover(self) -> None:
        await asyncio.sleep(self._settings.backoff(self._failures))
        try:
            if self._must_reclaim:
                self.epoch = await self._ownership.reclaim()
                self._must_reclaim = False
            if self.state is ShardState.FAILED:
                self._move(ShardState.LOADING)
            await self._load()
        except Exception as error:
            self._load_failures.record(error, asyncio.get_running_loop().time())
            self._fail("the shard cannot be loaded")
        else:
            self._load_failures.clear()
            self._move(ShardState.ACTIVE)
            self._arm_deadline()

    async def _load(self) -> None:
        machine, position, records = self._new_machine(), 0, 0
        while page := await self.read(position):
            replay(machine, page)
            position = page[-1][0]
            records += len(page)
        # A log that is trimmed completely still stores where it ended.
        position = max(position, await self._stream_log.last_position(self.shard))
        self._machine, self._pending = machine, PendingRecords(position)
        self.trimming.loaded(position - records, asyncio.get_running_loop().time())
        self._loads += 1

    # Failures and closing

    def _fail(self, reason: str) -> None:
        """Discards memory, which may differ from the log; the task loads it again."""
        if self.state is ShardState.CLOSED:
            self._shut(reason)
            return
        self._failures += 1
        if self.state is not ShardState.FAILED:
            self._move(ShardState.FAILED)
        self._abandon(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)

    def _refused(self, reason: str) -> None:
        """Pauses writes after the store rejected an append.

        Memory is loaded again at once, so reads continue.
        """
        self._refusal = f"the store rejects writes: {reason}"
        now = asyncio.get_running_loop().time()
        self._refused_until = now + self._settings.refusal_pause
        self._deadlines_from = now + self._settings.deadline_pause
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
        self._notify_append()
        self._deadline.cancel()
        self._expiry.cancel()

    def _move(self, to: ShardState) -> None:
        self.state = transition(self.state, to)

    def _notify_append(self) -> None:
        if self._appended is not None:
            self._appended.set_result(None)
            self._appended = None

    # Timers

    def _arm_deadline(self) -> None:
        deadline = self._machine.next_deadline()
        if deadline is not None:
            delay = max(deadline - self._settings.clock(), self._settings.timer_floor)
            self._deadline.arm(max(asyncio.get_running_loop().time() + delay, self._deadlines_from))

    def _on_deadline(self) -> None:
        if self.state is not ShardState.ACTIVE:
            return
        # If this process was frozen, another owner may have extended deadlines that appear to have passed.
        held = self._ownership.holds(self.epoch)
        writable = asyncio.get_running_loop().time() >= self._deadlines_from
        if held and writable and len(self._pending) < self._settings.queue_limit:
            self._accept(self._machine.on_deadline(self._settings.clock()))
        self._arm_deadline()

    def _on_expiry(self) -> None:
        now = asyncio.get_running_loop().time()
        earliest = self._pending.expire(now)
        if earliest is not None:
            self._expiry.arm(max(earliest, now + self._settings.timer_floor))


class EarliestTimer:
    """Calls `due` at the earliest time it was armed for since the last call.

    An early call finds nothing due and arms the timer again, which is cheaper than moving it each time.
    """

    __slots__ = ("_due", "_handle")

    def __init__(self, due: Callable[[], None]) -> None:
        self._due = due
        self._handle: asyncio.TimerHandle | None = None

    def arm(self, at: float) -> None:
        """Arms the timer for `at` (loop time) unless it fires earlier already."""
        if self._handle is not None:
            if self._handle.when() <= at:
                return
            self._handle.cancel()
        self._handle = asyncio.get_running_loop().call_at(at, self._fire)

    def cancel(self) -> None:
        """Disarms the timer. Idempotent."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._due()


class Trimming:
    """Schedules the trims of one shard: after `trim_records` records or `trim_interval` seconds (loop time).

    `before` is the position below which the log is trimmed.
    """

    def __init__(self, settings: RuntimeSettings) -> None:
        self._settings = settings
        self.before = 1
        self._trimmed = 0
        self._at = 0.0
        self._plan: tuple[int, int] | None = None

    def loaded(self, trimmed: int, now: float) -> None:
        """Records that the log was read and starts after position `trimmed`."""
        self._trimmed, self._at = trimmed, now + self._settings.trim_interval
        self.before = trimmed + 1

    def forget(self) -> None:
        """Drops the plan: pending records were discarded, so its position may never become durable."""
        self._plan = None

    def due(self, machine: Machine[Any, Any, Any], pending: PendingRecords, now: float) -> int | None:
        """Returns the position before which the log can be trimmed now; None if no trim is due."""
        if self._plan is None:
            if pending.durable - self._trimmed < self._settings.trim_records and now < self._at:
                return None
            self._plan = machine.trim_before(), pending.applied
        # A record is redundant only once the record that replaced it is durable.
        before, applied = self._plan
        if pending.durable < applied:
            return None
        self._plan, self._trimmed, self._at = None, pending.durable, now + self._settings.trim_interval
        return before
