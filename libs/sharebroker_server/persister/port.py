"""The persister: how leaders and the group coordinator reach the durable state of share-partitions.

Source: `org.apache.kafka.server.share.persister.Persister` (KIP-932). One call a share-partition; an
implementation gathers what goes to the same coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol


class ShareKey(NamedTuple):
    """A share-partition. Its text, "group:topicId:partition", decides which coordinator keeps its state."""

    group_id: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.group_id}:{self.topic_id}:{self.partition}"


class StateBatch(NamedTuple):
    """A run of offsets (inclusive) in one state: 0 available, 2 acknowledged, 4 archived."""

    first: int
    last: int
    state: int
    delivery_count: int


class SharePartitionState(NamedTuple):
    """What was read; a start offset of -1 is not set yet."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


class StateChange(Protocol):
    """What is written; batches are (first, last, state, delivery count)."""

    @property
    def state_epoch(self) -> int: ...  # noqa: D102 - as in the proto
    @property
    def leader_epoch(self) -> int: ...  # noqa: D102 - as in the proto
    @property
    def start_offset(self) -> int: ...  # noqa: D102 - as in the proto
    @property
    def delivery_complete_count(self) -> int: ...  # noqa: D102 - as in the proto
    @property
    def batches(self) -> Sequence[tuple[int, int, int, int]]: ...  # noqa: D102 - as in the proto


Changes = Sequence[tuple[ShareKey, StateChange]]
"""What is written of several share-partitions."""

Begun = asyncio.Future[Any]
"""Of each of several changes that were begun together: a KafkaError, or else it is durable."""


class LocalStates(Protocol):
    """The share coordinator of this very process."""

    def write(self, key: ShareKey, change: StateChange) -> asyncio.Future[Any]:
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
        self, key: ShareKey, state_epoch: int, start_offset: int, *, since_epoch: int | None = None
    ) -> None:
        """Starts the state anew; start offset -1 leaves it to the leader.

        State that is there stays if it is not older than `since_epoch`; then only its epoch rises.
        """

    async def read(self, key: ShareKey, leader_epoch: int) -> SharePartitionState:
        """The state, for the leader of this epoch."""

    def shard(self, key: ShareKey) -> int:
        """The number of what keeps the state."""

    def begin(self, shard: int, changes: Changes) -> Begun | None:
        """Makes changes durable where the states of the shard are kept in this process; None where not.

        One try, which raises nothing here: `write` what it failed to, which is tried again where that helps.
        """

    async def write(self, key: ShareKey, change: StateChange) -> None:
        """Makes a change durable."""

    async def delete(self, key: ShareKey, state_epoch: int) -> None:
        """Removes the state; success also where there is none. Raises where it has a higher epoch."""

    async def read_summary(self, key: ShareKey) -> StateSummary:
        """The state in short, without raising an epoch."""
