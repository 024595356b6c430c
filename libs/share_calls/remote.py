"""The calls to a leader in another process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from libs.share_calls.messages import (
    acknowledge_request,
    acknowledged,
    acquire_request,
    acquisitions,
    settle_request,
    settlements,
)
from libs.share_calls.values import (
    AcknowledgeCall,
    Acknowledged,
    AcquireCall,
    Acquisition,
    SettleCall,
    Settlement,
    TopicPartition,
)

if TYPE_CHECKING:
    from sharebroker.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub as Stub,
    )

GRACE: Final = 5.0
"""Seconds that a fetch may take longer than it waits: for loading, and the way there."""


class RemoteShareCalls:
    """`ShareCalls` over a stub."""

    __slots__ = ("_stub",)

    def __init__(self, stub: Stub) -> None:
        self._stub = stub

    async def acquire(self, call: AcquireCall) -> Sequence[Acquisition]:
        """See ShareCalls."""
        response = await self._stub.AcquireRecords(acquire_request(call), timeout=call.max_wait + GRACE)
        return acquisitions(response.partitions)

    async def acknowledge(self, call: AcknowledgeCall, timeout: float) -> Sequence[Acknowledged]:
        """See ShareCalls."""
        response = await self._stub.AcknowledgeRecords(acknowledge_request(call), timeout=timeout)
        return acknowledged(response.partitions)

    async def settle(self, call: SettleCall, timeout: float) -> Sequence[Settlement]:
        """See ShareCalls."""
        response = await self._stub.SettleRecords(settle_request(call), timeout=timeout)
        return settlements(response.partitions)

    def watch(self, group_id: str, partitions: Sequence[TopicPartition]) -> None:
        """See ShareCalls."""
