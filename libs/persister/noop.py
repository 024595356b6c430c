"""A persister that keeps nothing (Kafka: NoOpStatePersister)."""

from __future__ import annotations

from libs.persister.port import Changes, ShareKey, SharePartitionState, StateChange, StateSummary


class NoOpPersister:
    """Accepts every change; every state is not set. After a restart of the leader all records come again."""

    async def initialize(
        self, key: ShareKey, state_epoch: int, start_offset: int, *, since_epoch: int | None = None
    ) -> None:
        """See Persister."""

    async def read(self, key: ShareKey, leader_epoch: int) -> SharePartitionState:
        """See Persister."""
        return SharePartitionState(0, -1, ())

    def shard(self, key: ShareKey) -> int:
        """See Persister."""
        return 0

    def begin(self, shard: int, changes: Changes) -> None:
        """See Persister."""

    async def write(self, key: ShareKey, change: StateChange) -> None:
        """See Persister."""

    async def delete(self, key: ShareKey, state_epoch: int) -> None:
        """See Persister."""

    async def read_summary(self, key: ShareKey) -> StateSummary:
        """See Persister."""
        return StateSummary(0, 0, -1, -1)
