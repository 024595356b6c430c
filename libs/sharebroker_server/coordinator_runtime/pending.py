"""What a shard has decided and not yet made durable: payloads in order, and who waits for which position."""

from __future__ import annotations

from asyncio import Future
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError


class Waiter(NamedTuple):
    """A caller: answered with `reply` once `position` is durable, refused at `deadline` (loop time).

    Who does not write itself waits only because what it read is not durable yet.
    """

    position: int
    deadline: float
    reply: Any
    future: Future[Any]
    writes: bool


class Pending:
    """Positions up to `durable` are in the log, up to `applied` in memory."""

    __slots__ = ("_payloads", "_waiters", "applied", "durable")

    def __init__(self, position: int) -> None:
        self.durable = position
        self.applied = position
        self._payloads: deque[bytes] = deque()
        self._waiters: deque[Waiter] = deque()

    def __len__(self) -> int:
        return self.applied - self.durable + len(self._waiters)

    def add(self, payloads: Sequence[bytes]) -> None:
        """Take up the payloads of records that were applied."""
        self._payloads.extend(payloads)
        self.applied += len(payloads)

    def wait(self, waiter: Waiter) -> None:
        """Remember a caller; positions only rise from one to the next."""
        self._waiters.append(waiter)

    def cut(self, most_records: int, most_bytes: int) -> list[bytes]:
        """The next group: at least one payload, within both bounds otherwise."""
        group = [self._payloads.popleft()]
        size = len(group[0])
        while self._payloads and len(group) < most_records and size + len(self._payloads[0]) <= most_bytes:
            group.append(self._payloads.popleft())
            size += len(group[-1])
        return group

    def commit(self, records: int) -> None:
        """`records` more are durable: answer whoever waited for no more than them."""
        self.durable += records
        waiters = self._waiters
        while waiters and waiters[0].position <= self.durable:
            waiter = waiters.popleft()
            if not waiter.future.done():
                waiter.future.set_result(waiter.reply)

    def expire(self, now: float) -> float | None:
        """Refuse whoever's deadline has come with REQUEST_TIMED_OUT; the earliest deadline left."""
        left: deque[Waiter] = deque()
        for waiter in self._waiters:
            if waiter.deadline <= now:
                refuse(waiter.future, KafkaError(ErrorCode.REQUEST_TIMED_OUT, retry_after=0.0))
            else:
                left.append(waiter)
        self._waiters = left
        return min((waiter.deadline for waiter in left), default=None)

    def abandon(self, code: ErrorCode, message: str, *, reading: ErrorCode | None = None) -> None:
        """Nothing of this becomes durable any more: refuse everybody, those who only read with `reading`."""
        self._payloads.clear()
        self.applied = self.durable
        for waiter in self._waiters:
            refuse(waiter.future, KafkaError(code if waiter.writes else reading or code, message))
        self._waiters.clear()


def refuse(future: Future[Any], error: KafkaError) -> None:
    """Set the error, unless the caller has gone; nobody need look at it."""
    if not future.done():
        future.set_exception(error)
        future.exception()  # marks it as seen: a caller that left is no fault
