"""Calls to the coordinators of groups, share state and transactions, and to the owner of the catalog.

A call that does not find the coordinator is retried until its deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import doubling
from sharebroker_server.routing.router import Router

if TYPE_CHECKING:
    from sharebroker_protocol.cluster.v1.cluster_pb2_grpc import ClusterServiceAsyncStub
    from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
        GroupCoordinatorServiceAsyncStub,
    )
    from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import (
        ShareCoordinatorServiceAsyncStub,
    )
    from sharebroker_protocol.transaction_coordinator.v1.transaction_coordinator_pb2_grpc import (
        TransactionCoordinatorServiceAsyncStub,
    )

T = TypeVar("T")

MOVED_COORDINATOR: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Errors of a coordinator that moved or is still loading: a retry soon may succeed."""

_FIRST_DELAY: Final = 0.01
_LONGEST_DELAY: Final = 0.5


class Backoff:
    """Pauses that double, within a deadline."""

    __slots__ = ("_deadline", "_pauses")

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._pauses = doubling(_FIRST_DELAY, _LONGEST_DELAY)

    async def pause(self) -> bool:
        """Waits for the next pause; returns False at once if the deadline is sooner."""
        pause = next(self._pauses)
        if self._deadline.remaining() <= pause:
            return False
        await asyncio.sleep(pause)
        return True


async def retry_until_found(
    attempt: Callable[[float], Awaitable[T]], forget: Callable[[], None], deadline: Deadline
) -> T:
    """Calls `attempt(remaining seconds)` until it finds the coordinator; `forget` drops a stale one.

    Raises the KafkaError of the last attempt.
    """
    backoff = Backoff(deadline)
    while True:
        try:
            return await attempt(deadline.remaining())
        except KafkaError as error:
            if error.code not in MOVED_COORDINATOR:
                raise
            forget()
            if not await backoff.pause():
                raise


def raise_moved(code: int, message: str) -> None:
    """Raises the error of a response if the coordinator moved, so that `retry_until_found` retries."""
    if code in MOVED_COORDINATOR:
        raise KafkaError(ErrorCode(code), message)


class Coordinators:
    """Finds the owner for each call and retries if it moved. `send` gets the stub and a timeout."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def of_group(
        self,
        group_id: str,
        send: Callable[[GroupCoordinatorServiceAsyncStub, float], Awaitable[T]],
        deadline: Deadline,
    ) -> T:
        """Calls the coordinator of a group. Raises KafkaError."""
        return await self.of_groups(self._router.group_shard(group_id), send, deadline)

    async def of_groups(
        self,
        shard: int,
        send: Callable[[GroupCoordinatorServiceAsyncStub, float], Awaitable[T]],
        deadline: Deadline,
    ) -> T:
        """Calls the owner of a shard of groups. Raises KafkaError."""

        async def attempt(seconds: float) -> T:
            return await send(await self._router.group_coordinator(shard), seconds)

        return await retry_until_found(
            attempt, lambda: self._router.forget_group_coordinator(shard), deadline
        )

    async def of_share_state(
        self,
        shard: int,
        send: Callable[[ShareCoordinatorServiceAsyncStub, float], Awaitable[T]],
        deadline: Deadline,
    ) -> T:
        """Calls the owner of a shard of share state. Raises KafkaError."""

        async def attempt(seconds: float) -> T:
            return await send((await self._router.share_coordinator(shard)).stub, seconds)

        return await retry_until_found(
            attempt, lambda: self._router.forget_share_coordinator(shard), deadline
        )

    async def of_transaction(
        self,
        transactional_id: str,
        send: Callable[[TransactionCoordinatorServiceAsyncStub, float], Awaitable[T]],
        deadline: Deadline,
    ) -> T:
        """Calls the coordinator of a transactional id. Raises KafkaError."""

        async def attempt(seconds: float) -> T:
            return await send(await self._router.transaction_coordinator(transactional_id), seconds)

        return await retry_until_found(
            attempt, lambda: self._router.forget_transaction_coordinator(transactional_id), deadline
        )

    async def of_catalog(
        self, send: Callable[[ClusterServiceAsyncStub, float], Awaitable[T]], deadline: Deadline
    ) -> T:
        """Calls the owner of the catalog. Raises KafkaError."""

        async def attempt(seconds: float) -> T:
            return await send(await self._router.catalog(), seconds)

        return await retry_until_found(attempt, self._router.forget_catalog, deadline)
