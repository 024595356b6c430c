"""A leader in this process that serves share fetches and acknowledgements, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.leader_calls.values import (
    AcknowledgeCall,
    AckResult,
    AcquireCall,
    AcquireResult,
    ReconcileCall,
    ReconcileResult,
)
from sharebroker_server.share_partition_leader.requests.local_leader import LocalWatch


class FakeShareCalls:
    """Records the calls; no records are available, and every acknowledgement is accepted."""

    def __init__(self) -> None:
        self.acquired: list[AcquireCall] = []
        self.acknowledged: list[AcknowledgeCall] = []
        self.acquire_result: Callable[[str, int], AcquireResult] = AcquireResult
        self.result: Callable[[str, int], AckResult] = AckResult

    async def acquire(self, call: AcquireCall) -> list[AcquireResult]:
        self.acquired.append(call)
        return [self.acquire_result(*partition) for partition in call.partitions]

    async def acknowledge(self, call: AcknowledgeCall, timeout: float) -> list[AckResult]:
        self.acknowledged.append(call)
        return [self.result(part.topic_id, part.partition) for part in call.parts]

    async def reconcile(self, call: ReconcileCall, timeout: float) -> list[ReconcileResult]:
        raise NotImplementedError

    async def watch(self, group_id: str, partitions: Sequence[TopicIdPartition]) -> LocalWatch:
        return LocalWatch()
