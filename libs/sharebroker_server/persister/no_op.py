"""The no-op persister: stores no share state (Kafka: NoOpStatePersister).

Every call succeeds. Start offsets, acknowledgements and delivery counts exist in the leader's memory only.
They are lost when the leader changes or restarts, and when a share-partition is no longer used; the group
then starts again at `share.auto.offset.reset`. Lag is unknown.
"""

from __future__ import annotations

import asyncio
from typing import Final

from typing_extensions import override

from sharebroker_protocol.model import SharePartitionKey, StateWrite
from sharebroker_server.persister.port import (
    Begun,
    Changes,
    LocalStates,
    Persister,
    SharePartitionState,
    StateSummary,
)

_UNINITIALIZED: Final = -1


class NoOpPersister(Persister):
    """Accepts everything and stores nothing."""

    def register_local(self, owner: str, states: LocalStates) -> None:
        """Does nothing: the share coordinator of this process is not used."""

    @override
    async def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, *, since_epoch: int | None = None
    ) -> None:
        pass

    @override
    async def read(self, key: SharePartitionKey, leader_epoch: int) -> SharePartitionState:
        return SharePartitionState(0, _UNINITIALIZED, ())

    @override
    def shard(self, key: SharePartitionKey) -> int:
        return 0

    @override
    def begin(self, shard: int, changes: Changes) -> Begun | None:
        begun: Begun = asyncio.get_running_loop().create_future()
        begun.set_result([None] * len(changes))
        return begun

    @override
    async def write(self, key: SharePartitionKey, change: StateWrite) -> None:
        pass

    @override
    async def delete(self, key: SharePartitionKey, state_epoch: int) -> None:
        pass

    @override
    async def read_summary(self, key: SharePartitionKey) -> StateSummary:
        return StateSummary(0, 0, _UNINITIALIZED, _UNINITIALIZED)
