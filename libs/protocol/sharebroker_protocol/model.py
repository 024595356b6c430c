"""The value types that client, services and libraries share. No I/O and no rules.

Offsets are ints, and ranges of offsets include both ends. Times are seconds as float. Most values are created
on every fetch or acknowledgement: a named tuple costs a third of a frozen dataclass to create.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

PASSWORD_VARIABLE: Final = "SHAREBROKER_PASSWORD"
"""The environment variable with the password of an address that names a user and no file."""

LONGEST_DELAY_MS: Final = 24 * 3_600_000
"""Limit of the delay of a delayed release."""

SHORTEST_LOCK_MS: Final = 1000
"""The shortest lock that a member may request."""

LONGEST_LOCK_MS: Final = 24 * 3_600_000
"""The longest lock that a broker may allow."""

MESSAGE_ID_HEADER: Final = "sharebroker.message.id"
"""The record header with a message id, by which topics with message.dedup.window.ms detect duplicates."""

MAX_REASON: Final = 500
"""Characters of the reason of a reject that are sent and logged."""

LONGEST_JOURNAL: Final = 1000
"""The most entries in the journal of failed records of a share-partition."""

LONGEST_HOLDER: Final = 4096
"""Characters of the holder of a lock: member id and principal.

A name of 249 characters has up to 2,988 in percent encoding.
"""

LONGEST_STORED_REASON: Final = 256
"""Characters of a reason that are stored with a failed record."""


class TopicPartition(NamedTuple):
    """A partition by its topic's name (Kafka: TopicPartition)."""

    topic: str
    """The name of the topic."""
    partition: int
    """The partition number."""


class TopicIdPartition(NamedTuple):
    """A partition by its topic's id, in Kafka's text form of 22 characters (Kafka: TopicIdPartition)."""

    topic_id: str
    partition: int


class SharePartitionKey(NamedTuple):
    """Names a share-partition (Kafka: SharePartitionKey).

    The text "group:topicId:partition" is hashed to find the shard of the share coordinator.
    """

    group_id: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.group_id}:{self.topic_id}:{self.partition}"


class RecordState(IntEnum):
    """State of a record between start offset and end offset; the values are Kafka's (`RecordState`).

    ACQUIRED is never persisted. ARCHIVING records failed, and become ARCHIVED once their dead letters are
    written. The terminal states are those in FINISHED.
    """

    __hash__ = int.__hash__  # Enum's own hash is a Python function: five times slower

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


FINISHED: Final = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
"""The terminal states; ARCHIVING lies between them and is not terminal."""

ENDED: Final = (*FINISHED, RecordState.ARCHIVING)
"""The states in which a record is not delivered any more."""


class Disposition(IntEnum):
    """Why a record failed: no member accepted it; the numbers are stored."""

    REJECTED = 1
    EXHAUSTED = 2
    EXPIRED = 3


DISPOSITION_NAMES: Final[Mapping[int, str]] = {each: each.name.lower() for each in Disposition}
"""The names that users see, by number."""


class AckType(IntEnum):
    """How a member acknowledges a record that it holds (Kafka: AcknowledgeType; 0 is a gap in the log)."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcquireMode(IntEnum):
    """How strictly the record limit of an acquisition holds (Kafka: ShareAcquireMode, KIP-1206)."""

    BATCH_OPTIMIZED = 0
    """Soft: whole record batches are acquired."""
    RECORD_LIMIT = 1
    """Strict: never one offset more."""


class FailureNote(NamedTuple):
    """How records failed that are ARCHIVING; the fields are those of FailedRecords."""

    disposition: int
    time_ms: int = 0
    member_id: str = ""
    reason: str = ""


class StateNote(NamedTuple):
    """What is stored of a state beyond Kafka's fields.

    An AVAILABLE record is not delivered before `not_before_ms`, in milliseconds since the Unix epoch by the
    clock of Redis. With a `lock_token` it is locked for `holder` until then; the delivery count of its batch
    is the one before the lock. An ARCHIVING record has only a `failure`.
    """

    not_before_ms: int = 0
    holder: str = ""
    lock_token: int = 0
    failure: FailureNote | None = None


class StateBatch(NamedTuple):
    """Offsets first..last in one persisted state (Kafka: PersisterStateBatch).

    `state` is the number of a RecordState, never ACQUIRED. It is an int, since the share coordinator must be
    able to read, and reject, a number that is not a state. Nearly all batches have no `note`.
    """

    first: int
    last: int
    state: int
    delivery_count: int
    note: StateNote | None = None


class FailedRecords(NamedTuple):
    """Offsets first..last that failed together: they end although no member accepted them.

    `disposition` is the number of a Disposition. `delivery_count`: deliveries to members. `time_ms` is in
    milliseconds since the Unix epoch by the clock of Redis. `member_id` held the records last; `reason` is
    the text of its acknowledgement, at most LONGEST_STORED_REASON characters.
    """

    first: int
    last: int
    disposition: int
    delivery_count: int
    time_ms: int = 0
    member_id: str = ""
    reason: str = ""


class JournalUpdate(NamedTuple):
    """Changes the journal of failed records of a share-partition: adds `records`, then removes the oldest.

    At most `limit` entries remain. `dropped` is the number of further records, whose entries were above the
    limit. A `complete` update replaces the journal; only the share coordinator writes it.
    """

    records: tuple[FailedRecords, ...]
    limit: int
    dropped: int = 0
    complete: bool = False


class StateWrite(NamedTuple):
    """A state write of one share-partition: the start offset, and the batches that changed, as they will be.

    Start offset -1 leaves the stored one, delivery complete count -1 is unknown. The share coordinator never
    moves the stored start offset back, unless the write `replaces` the state, of which nothing else remains.
    `failed` lists the records that the write makes ARCHIVING or ARCHIVED because they failed.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    failed: JournalUpdate | None = None
    replaces: bool = False


class AcquiredRange(NamedTuple):
    """Offsets first..last that a member acquired (KIP-932: AcquiredRecords).

    `token` names the acquisition, `deadline` is the time of the lock timeout.
    """

    first: int
    last: int
    delivery_count: int
    token: int
    deadline: float


class AckBatch(NamedTuple):
    """Acknowledgement of first..last: one type for all, or one for each offset (numbers of AckType).

    With a `token`, records that were acquired again since then are rejected; None checks the member only.
    """

    first: int
    last: int
    types: Sequence[int]
    token: int | None = None
