"""Commands and replies of a shard (Kafka RPCs 83 to 87, without their wire format), and the key they name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_protocol.model import FailedRecords, JournalUpdate, SharePartitionKey, StateBatch
from sharebroker_server.share_coordinator.core.state import ShareState

INT32_MAX: Final = 2**31 - 1
LONGEST_STRING: Final = 2**15 - 1
"""The longest string in Kafka's protocol, in bytes."""

_TOPIC_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
_ZERO_TOPIC_ID: Final = "A" * 22


def make_key(group_id: str, topic_id: str, partition: int) -> SharePartitionKey:
    """Returns a validated key; raises INVALID_REQUEST with the name of the invalid field."""
    if not 0 < len(group_id.encode()) <= LONGEST_STRING:
        raise invalid("group_id", f"must have 1 to {LONGEST_STRING} bytes")
    if not _TOPIC_ID.fullmatch(topic_id) or topic_id == _ZERO_TOPIC_ID:
        raise invalid("topic_id", "must be a UUID in base64url, 22 characters, not zero")
    if not 0 <= partition <= INT32_MAX:
        raise invalid("partition", "must not be negative")
    return SharePartitionKey(group_id, topic_id, partition)


def invalid(field: str, description: str) -> KafkaError:
    """Returns INVALID_REQUEST about a field."""
    return KafkaError(
        ErrorCode.INVALID_REQUEST, f"{field} {description}", violations=[FieldViolation(field, description)]
    )


class Initialize(NamedTuple):
    """Create the state at group epoch `state_epoch`.

    A start offset of -1 means that the leader chooses it. With `keep_existing`, or a start offset of -1,
    existing state remains and only its state epoch rises. A command with the epoch of the stored state is a
    repetition and changes nothing; without `start_has_epoch` its start offset must be the same, too. State
    older than `since_epoch` belongs to a deleted group, restored by a delayed request; it never remains.
    """

    key: SharePartitionKey
    state_epoch: int
    start_offset: int
    keep_existing: bool = False
    start_has_epoch: bool = False
    since_epoch: int = 0

    def keeps(self, state: ShareState) -> bool:
        """Returns whether existing state remains."""
        return (self.keep_existing or self.start_offset == -1) and state.state_epoch >= self.since_epoch


class Read(NamedTuple):
    """Read the state, and fence leaders with an older epoch.

    `lease_epoch` is that of the partition's lease, or NO_LEASE. Without it (None), a read that would raise
    the stored leader epoch changes nothing; its reply is `LeaseRequired`.
    """

    key: SharePartitionKey
    leader_epoch: int
    lease_epoch: int | None = None


class Write(NamedTuple):
    """Combine batches with the state; the fields of StateWrite follow the key.

    Start offset -1 means unchanged, delivery complete count -1 unknown. A write that `replaces` the state has
    all that remains of it.
    """

    key: SharePartitionKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: tuple[StateBatch, ...]
    failed: JournalUpdate | None = None
    replaces: bool = False


class Delete(NamedTuple):
    """Remove the state unless its epoch is higher (None: remove any). Succeeds if there is no state."""

    key: SharePartitionKey
    state_epoch: int | None = None


class DeleteTopicState(NamedTuple):
    """Remove the state of every share-partition of a topic in this shard."""

    topic_id: str


class ListTopics(NamedTuple):
    """Return the ids of the topics for which this shard stores state."""


class Summarize(NamedTuple):
    """Read start offset, epochs and counts without raising an epoch.

    `clock_skew`: seconds by which the clock of this process is ahead of that of Redis, which sets stored
    times.
    """

    key: SharePartitionKey
    clock_skew: float = 0.0


class CheckpointStates(NamedTuple):
    """Write the complete state of these share-partitions again; those without state are ignored."""

    keys: tuple[SharePartitionKey, ...]


class ReadFailed(NamedTuple):
    """Return the journal of failed records."""

    key: SharePartitionKey


class Inspect(NamedTuple):
    """Return the state in memory, with the positions needed to find its records in the log."""

    key: SharePartitionKey


Command = (
    Initialize
    | Read
    | Write
    | Delete
    | DeleteTopicState
    | ListTopics
    | Summarize
    | CheckpointStates
    | ReadFailed
    | Inspect
)


NO_LEASE: Final = -1
"""The lease epoch of a partition that no leader owns."""


@dataclass(frozen=True, slots=True)
class LeaseRequired:
    """The read raises the leader epoch: repeat it with the epoch of the partition's lease."""


@dataclass(frozen=True, slots=True)
class ReadReply:
    """The state that a leader loads; `kept_since` is as in a checkpoint."""

    state_epoch: int
    start_offset: int
    state_batches: tuple[StateBatch, ...]
    kept_since: int = 0


@dataclass(frozen=True, slots=True)
class SummaryReply:
    """The fields from which the group coordinator computes lag; the defaults mean that there is no state."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = -1
    delivery_complete_count: int = -1
    waiting_count: int = 0
    locked_count: int = 0
    archiving_count: int = 0


@dataclass(frozen=True, slots=True)
class FailedReply:
    """The entries of a journal in the order in which they were added, and the number of dropped records."""

    records: tuple[FailedRecords, ...] = ()
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Inspection:
    """A copy of the state in memory (None: no state) after the record at `last_position`."""

    state: ShareState | None
    last_position: int


Reply = ReadReply | LeaseRequired | SummaryReply | FailedReply | Inspection | frozenset[str] | int | None
