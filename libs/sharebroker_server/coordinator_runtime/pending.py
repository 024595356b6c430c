"""The pending work of a shard: accepted records that are not durable, and waiting replies and effects."""

from __future__ import annotations

from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.machine import Effect

_log = structlog.get_logger()

Perform = Callable[[Effect], None]
"""Executes an effect; must not block."""


class Waiter(NamedTuple):
    """A caller: receives `reply` once `position` is durable, REQUEST_TIMED_OUT at `deadline` (loop time).

    A caller whose command wrote nothing (`writes` false) waits because its reply depends on pending records.
    """

    position: int
    deadline: float
    reply: Any
    future: Future[Any]
    writes: bool


class PendingRecords:
    """Records up to position `durable` are in the log, records up to `applied` in memory."""

    __slots__ = ("_effects", "_payloads", "_waiters", "applied", "durable")

    def __init__(self, position: int) -> None:
        self.durable = position
        self.applied = position
        self._payloads: deque[bytes] = deque()
        self._waiters: deque[Waiter] = deque()
        self._effects: deque[tuple[int, Effect]] = deque()

    def __len__(self) -> int:
        return self.applied - self.durable + len(self._waiters)

    def add(self, payloads: Sequence[bytes]) -> None:
        """Queues the payloads of records that were applied."""
        self._payloads.extend(payloads)
        self.applied += len(payloads)

    def add_effects(self, effects: Iterable[Effect]) -> None:
        """Queues effects that are performed once all records applied so far are durable."""
        self._effects.extend((self.applied, effect) for effect in effects)

    def wait(self, waiter: Waiter) -> None:
        """Queues a caller; positions never decrease from one waiter to the next."""
        self._waiters.append(waiter)

    def cut(self, most_records: int, most_bytes: int) -> list[bytes]:
        """Removes and returns the next group of payloads: at least one, otherwise within both bounds."""
        group = [self._payloads.popleft()]
        size = len(group[0])
        while self._payloads and len(group) < most_records and size + len(self._payloads[0]) <= most_bytes:
            group.append(self._payloads.popleft())
            size += len(group[-1])
        return group

    def commit(self, records: int) -> list[Effect]:
        """Marks `records` more as durable and resolves their waiters.

        Returns the effects to perform, in order.
        """
        self.durable += records
        waiters = self._waiters
        while waiters and waiters[0].position <= self.durable:
            waiter = waiters.popleft()
            resolve(waiter.future, waiter.reply)
        effects: list[Effect] = []
        while self._effects and self._effects[0][0] <= self.durable:
            effects.append(self._effects.popleft()[1])
        return effects

    def expire(self, now: float) -> float | None:
        """Rejects waiters whose deadline has passed; returns the earliest remaining deadline."""
        remaining: deque[Waiter] = deque()
        for waiter in self._waiters:
            if waiter.deadline <= now:
                reject(waiter.future, KafkaError(ErrorCode.REQUEST_TIMED_OUT, retry_after=0.0))
            else:
                remaining.append(waiter)
        self._waiters = remaining
        return min((waiter.deadline for waiter in remaining), default=None)

    def abandon(self, code: ErrorCode, message: str, *, reading: ErrorCode | None = None) -> None:
        """Discards all that is pending; rejects the waiters, those that only read with `reading` if given."""
        self._payloads.clear()
        self._effects.clear()
        self.applied = self.durable
        for waiter in self._waiters:
            reject(waiter.future, KafkaError(code if waiter.writes else reading or code, message))
        self._waiters.clear()


def resolve(future: Future[Any], reply: Any) -> None:
    """Completes a caller's future with its reply, or with the error that the reply is."""
    if isinstance(reply, KafkaError):
        reject(future, reply)
    elif not future.done():
        future.set_result(reply)


def reject(future: Future[Any], error: KafkaError) -> None:
    """Fails a caller's future, unless the caller was cancelled; an unread error is not reported."""
    if not future.done():
        future.set_exception(error)
        future.exception()  # marks the error as retrieved: a cancelled caller is no bug


def no_effects(effect: Effect) -> None:
    """Raises TypeError: the coordinator of this shard has no effects."""
    raise TypeError(f"no code performs the effect {effect!r}")


def perform_all(perform: Perform, effects: Iterable[Effect], shard: str) -> None:
    """Performs effects in order; an error is logged and does not stop the next ones."""
    for effect in effects:
        try:
            perform(effect)
        except Exception:
            _log.exception("effect failed", shard=shard, effect=repr(effect))
