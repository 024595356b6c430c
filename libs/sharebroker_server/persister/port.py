"""The persister: how leaders and the group coordinator reach the durable state of share-partitions.

Source: `org.apache.kafka.server.share.persister.Persister` (KIP-932). One call a share-partition; an
implementation gathers what goes to the same coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from sharebroker_protocol.model import SharePartitionKey, StateBatch, StateWrite


class SharePartitionState(NamedTuple):
    """What was read; a start offset of -1 is not set yet."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


Changes = Sequence[tuple[SharePartitionKey, StateWrite]]
"""What is written of several share-partitions."""

Begun = asyncio.Future[Any]
"""Of each of several changes that were begun together: a KafkaError, or else it is durable."""


class LocalStates(Protocol):
    """The share coordinator of this very process."""

    def write(self, key: SharePartitionKey, change: StateWrite) -> asyncio.Future[Any]:
        """Makes a change durable, soon. Raises KafkaError, here or later."""

    def write_all(self, shard: int, changes: Changes) -> Begun:
        """The same for share-partitions of one shard. Raises KafkaError where none is taken."""


class StateSummary(NamedTuple):
    """Start offset and finished records behind it; -1 where not known."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class Persister(Protocol):
    """Every method raises KafkaError: the coordinator's refusal, or the last failure once the time is up."""

    async def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, *, since_epoch: int | None = None
    ) -> None:
        """Starts the state anew; start offset -1 leaves it to the leader.

        State that is there stays if it is not older than `since_epoch`; then only its epoch rises.
        """

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> SharePartitionState:
        """The state, for the leader of this epoch."""

    def shard(self, key: SharePartitionKey) -> int:
        """The number of what keeps the state."""

    def begin(self, shard: int, changes: Changes) -> Begun | None:
        """Makes changes durable where the states of the shard are kept in this process; None where not.

        One try, which raises nothing here: `write` what it failed to, which is tried again where that helps.
        """

    async def write(self, key: SharePartitionKey, change: StateWrite) -> None:
        """Makes a change durable."""

    async def delete(self, key: SharePartitionKey, state_epoch: int) -> None:
        """Removes the state; success also where there is none. Raises where it has a higher epoch."""

    async def read_summary(self, key: SharePartitionKey) -> StateSummary:
        """The state in short, without raising an epoch."""
