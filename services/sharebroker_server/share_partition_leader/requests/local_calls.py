"""The calls of a gateway in the same process: plain values, no messages."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.leader_calls.values import (
    AcknowledgeCall,
    AckResult,
    AcquireCall,
    AcquireResult,
    AppendCall,
    AppendResult,
    DeliverOpen,
    ReconcileCall,
    ReconcileResult,
)
from sharebroker_server.share_partition_leader.log.append import append
from sharebroker_server.share_partition_leader.log.transaction_verification import TransactionalAppends
from sharebroker_server.share_partition_leader.requests.acknowledge import acknowledge
from sharebroker_server.share_partition_leader.requests.deliver_stream import DeliverySession
from sharebroker_server.share_partition_leader.requests.fetch import Fetch
from sharebroker_server.share_partition_leader.requests.ports import SharePartitions
from sharebroker_server.share_partition_leader.requests.reconcile import reconcile
from sharebroker_server.share_partition_leader.requests.records_watch import LocalWatch


class LocalLeader:
    """`LeaderCalls` on the partitions that this process leads.

    The methods return the coroutines of the functions that do the work, so that a call adds no stack frame.
    """

    def __init__(self, partitions: SharePartitions, appends: TransactionalAppends) -> None:
        self._partitions = partitions
        self._appends = appends

    def acquire(self, call: AcquireCall) -> Coroutine[Any, Any, list[AcquireResult]]:
        """Runs a fetch."""
        return Fetch(call, self._partitions).run()

    def acknowledge(self, call: AcknowledgeCall, timeout: float) -> Coroutine[Any, Any, list[AckResult]]:
        """Applies acknowledgements."""
        return acknowledge(self._partitions, call, timeout)

    def reconcile(self, call: ReconcileCall, timeout: float) -> Coroutine[Any, Any, list[ReconcileResult]]:
        """Reconciles the records of planned batches."""
        return reconcile(self._partitions, call, timeout)

    def append(self, call: AppendCall, timeout: float | None) -> Coroutine[Any, Any, list[AppendResult]]:
        """Appends record batches."""
        return append(self._partitions, self._appends, call, timeout)

    def deliver(self, opening: DeliverOpen) -> DeliverySession:
        """Opens a delivery stream."""
        return DeliverySession(opening, self._partitions)

    def watch(self, group_id: str, partitions: Sequence[TopicIdPartition]) -> LocalWatch | None:
        """A watch; None if a share-partition has records or is not loaded."""
        watched = []
        for partition in partitions:
            share_partition = self._partitions.loaded(group_id, *partition)
            if share_partition is None or not share_partition.is_quiet():
                return None
            watched.append(share_partition)
        return LocalWatch(watched)
