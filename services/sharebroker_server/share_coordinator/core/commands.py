"""What callers ask of a shard, and what they get (Kafka RPCs 83 to 87, without the wire)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sharebroker_protocol.model import SharePartitionKey, StateBatch
from sharebroker_server.share_coordinator.core.state import ShareState


class Initialize(NamedTuple):
    """Start the state anew; `state_epoch` is the group epoch, `start_offset` -1 leaves it to the leader.

    `keep_existing`, and a start offset of -1, leave what is there: only its state epoch rises. At the epoch
    of the state the same start was asked for before, and nothing changes; with `start_has_epoch` any start.
    What is older than `since_epoch` was deleted, and a late request brought it back: it never stays.
    """

    key: SharePartitionKey
    state_epoch: int
    start_offset: int
    keep_existing: bool = False
    start_has_epoch: bool = False
    since_epoch: int = 0

    def keeps(self, state: ShareState) -> bool:
        """Whether state that is there stays."""
        return (self.keep_existing or self.start_offset == -1) and state.state_epoch >= self.since_epoch


class Read(NamedTuple):
    """Read the state and fence leaders of earlier epochs."""

    key: SharePartitionKey
    leader_epoch: int


class Write(NamedTuple):
    """Combine the batches of a state write with the stored state; the fields of StateWrite follow the key."""

    key: SharePartitionKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: tuple[StateBatch, ...]


class Delete(NamedTuple):
    """Remove the state, unless it is of a higher epoch (None: of any); success also where there is none."""

    key: SharePartitionKey
    state_epoch: int | None = None


class DeleteTopic(NamedTuple):
    """Remove the state of every share-partition of a topic that this shard holds."""

    topic_id: str


class ListTopics(NamedTuple):
    """Ask for the ids of the topics that this shard holds state of."""


class Summarize(NamedTuple):
    """Read start offset, epochs and count without raising an epoch."""

    key: SharePartitionKey


class Inspect(NamedTuple):
    """Read the value as it is in memory, with the positions needed to find its records in the log."""

    key: SharePartitionKey


Command = Initialize | Read | Write | Delete | DeleteTopic | ListTopics | Summarize | Inspect


@dataclass(frozen=True, slots=True)
class ReadReply:
    """What a leader starts from."""

    state_epoch: int
    start_offset: int
    state_batches: tuple[StateBatch, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """What the group coordinator computes lag from; the defaults say that there is no state."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = -1
    delivery_complete_count: int = -1


@dataclass(frozen=True, slots=True)
class Inspection:
    """A copy of the live value (None: no state) after the record at `last_position`."""

    state: ShareState | None
    last_position: int


Reply = ReadReply | Summary | Inspection | frozenset[str] | int | None
