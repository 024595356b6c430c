"""The persister: the access of leaders and group coordinators to the durable state of share-partitions.

Source: `org.apache.kafka.server.share.persister.Persister` (KIP-932). A call is about one share-partition; an
implementation combines calls that go to the same share coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from typing_extensions import override

from sharebroker_protocol.model import SharePartitionKey, StateBatch, StateWrite
from sharebroker_server.leases.names import Shard

if TYPE_CHECKING:
    from sharebroker_server.record_log.partition_log import PartitionLog


class SharePartitionState(NamedTuple):
    """The stored state; a start offset of -1 is not set yet.

    `kept_since` is the state epoch since which initialisations have kept the state; 0: `state_epoch`.
    """

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]
    kept_since: int = 0


Changes = Sequence[tuple[SharePartitionKey, StateWrite]]
"""State writes of several share-partitions."""

Begun = asyncio.Future[Any]
"""Result of a batch of state writes: for each a KafkaError, or else it is durable."""


class LocalStates(Protocol):
    """The share coordinator of this process."""

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> SharePartitionState:
        """Reads the state as `Persister.read`. Raises KafkaError."""

    def write(self, key: SharePartitionKey, change: StateWrite) -> asyncio.Future[Any]:
        """Starts a state write. Raises KafkaError, here or through the future."""

    def write_all(self, shard: Shard, changes: Changes) -> Begun:
        """Starts state writes to one shard. Raises KafkaError if it accepts none."""


class LogStates(Protocol):
    """The share state in the logs of the partitions that this process leads."""

    def open(self, log: PartitionLog) -> None:
        """Loads the state in a log, in the background."""

    async def close(self, resource: str) -> None:
        """Ends the use of a partition's log, after pending writes."""


class StateSummary(NamedTuple):
    """The start offset and the number of finished records behind it; -1 if unknown.

    `waiting_count` is the number of records that are stored with a time before which they are not delivered,
    `locked_count` that of records with a durable lock, `archiving_count` that of failed records that wait for
    their dead letters.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    waiting_count: int = 0
    locked_count: int = 0
    archiving_count: int = 0


class Persister(Protocol):
    """Every method raises KafkaError: the coordinator's error, or the last failure after all retries."""

    async def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, *, since_epoch: int | None = None
    ) -> None:
        """Initialises the state; start offset -1 leaves the start to the leader.

        Existing state of `since_epoch` or later stays; only its state epoch increases.
        """

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> SharePartitionState:
        """Reads the state for the leader of this epoch, and fences earlier leaders."""

    def shard(self, key: SharePartitionKey) -> Shard:
        """The shard that stores the state."""

    def begin(self, shard: Shard, changes: Changes) -> Begun | None:
        """Starts state writes if the shard is in this process; returns None if it is not.

        Tries once and raises nothing here; a write that fails is repeated with `write`.
        """

    async def write(self, key: SharePartitionKey, change: StateWrite) -> None:
        """Makes a state write durable, with retries."""

    async def delete(self, key: SharePartitionKey, state_epoch: int) -> None:
        """Deletes the state; succeeds if there is none. Raises if the stored epoch is higher."""

    async def read_summary(self, key: SharePartitionKey) -> StateSummary:
        """Reads a summary of the state, without fencing."""


_UNINITIALIZED: Final = -1


class NoOpPersister(Persister):
    """Accepts everything and stores nothing."""

    @override
    async def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, *, since_epoch: int | None = None
    ) -> None:
        pass

    @override
    async def read(self, key: SharePartitionKey, leader_epoch: int) -> SharePartitionState:
        return SharePartitionState(0, _UNINITIALIZED, ())

    @override
    def shard(self, key: SharePartitionKey) -> Shard:
        return 0

    @override
    def begin(self, shard: Shard, changes: Changes) -> Begun | None:
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
