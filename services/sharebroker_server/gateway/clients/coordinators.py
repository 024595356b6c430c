"""Calls to the coordinators of groups, share state and transactions, and to the owner of the catalog."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from sharebroker_server.gateway.clients.deadline import Deadline, retry_until_found
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
