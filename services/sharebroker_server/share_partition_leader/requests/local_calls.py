"""The calls of gateways: those of this process come here, others by way of the servicer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.share_calls.values import (
    AcknowledgeCall,
    Acknowledged,
    AcquireCall,
    Acquisition,
    SettleCall,
    Settlement,
)
from sharebroker_server.share_partition_leader.requests.acknowledge import acknowledge
from sharebroker_server.share_partition_leader.requests.fetch import Fetch, Fetching
from sharebroker_server.share_partition_leader.requests.reconcile import Led, settle
from sharebroker_server.share_partition_leader.requests.records_watch import ShareWatch


class Called(Led, Fetching, Protocol):
    """What calls of gateways ask."""


class LocalShareCalls:
    """`ShareCalls` on the partitions that this process leads."""

    def __init__(self, partitions: Called) -> None:
        self._partitions = partitions

    async def acquire(self, call: AcquireCall) -> list[Acquisition]:
        """See ShareCalls."""
        return await Fetch(call, self._partitions).run()

    async def acknowledge(self, call: AcknowledgeCall, timeout: float) -> list[Acknowledged]:
        """See ShareCalls."""
        return await acknowledge(self._partitions, call, timeout)

    async def settle(self, call: SettleCall, timeout: float) -> list[Settlement]:
        """See ShareCalls."""
        return await settle(self._partitions, call, timeout)

    def watch(self, group_id: str, partitions: Sequence[TopicIdPartition]) -> ShareWatch | None:
        """See ShareCalls."""
        watched = []
        for partition in partitions:
            share_partition = self._partitions.loaded(group_id, *partition)
            if share_partition is None or not share_partition.is_quiet():
                return None
            watched.append(share_partition)
        return ShareWatch(watched)
