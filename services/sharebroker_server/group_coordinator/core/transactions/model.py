"""A transactional id, its producer and its transaction, and the table of legal transitions.

Source: Kafka's TransactionMetadata and TransactionState (KIP-98, KIP-360, KIP-890).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, NamedTuple

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.coordinator_runtime.machine import SoftChange

NONE: Final = -1
"""Stands for no producer id, no epoch, no time."""

LAST_EPOCH: Final = 2**15 - 2
"""The last epoch that a producer receives: one more remains to fence it."""

RENEWS_EPOCH: Final = 2
"""The transaction.version from which each transaction has its own producer epoch."""


Key = str | None

IDS: Final = None
"""The key of the record about producer ids."""

BLOCK: Final = 1000
"""Ids per record (Kafka: the controller's blocks); a restart skips the remaining ids of the last block."""


class TransactionState(Enum):
    """Kafka's TransactionState, with Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState

MOVES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    EMPTY: frozenset({EMPTY, ONGOING, COMPLETE_ABORT}),
    ONGOING: frozenset({ONGOING, PREPARE_COMMIT, PREPARE_ABORT}),
    PREPARE_COMMIT: frozenset({COMPLETE_COMMIT}),
    PREPARE_ABORT: frozenset({COMPLETE_ABORT}),
    COMPLETE_COMMIT: frozenset({EMPTY, ONGOING, COMPLETE_ABORT}),
    COMPLETE_ABORT: frozenset({EMPTY, ONGOING, COMPLETE_ABORT}),
}
"""The legal transitions; an absent one is illegal.

An abort of a transaction without partitions skips PREPARE_ABORT: it needs no markers.
"""

IDLE: Final = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""No transaction is open or decided."""

ENDING: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""The transaction is decided, and its markers are being written."""


class IllegalTransactionStateError(Exception):
    """The requested transition is not in the table."""


class Verdict(NamedTuple):
    """Offsets first..last of a partition, and the AcknowledgeType staged for them."""

    topic: str
    partition: int
    first: int
    last: int
    kind: int


@dataclass(frozen=True, slots=True)
class Staged:
    """The verdicts of a planned batch, ascending, and the producer epoch that staged them.

    The commit of the batch carries them out. `reconciled`: they were carried out.
    """

    batch: str
    producer_epoch: int
    verdicts: tuple[Verdict, ...] = ()
    reconciled: bool = False


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id's producer and its latest transaction; -1 stands for no id, no epoch, no time.

    * `last_producer_epoch`: the epoch before the current one if the producer itself requested the change; it
      may repeat that request.
    * `previous_producer_id`: the producer id whose epochs were exhausted. `next_producer_id`: the one that
      follows a decided transaction.
    * `version`: the transaction.version of the latest request. `staged`: verdicts of a session's planned
      batch.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = EMPTY
    partitions: frozenset[TopicIdPartition] = frozenset()
    last_producer_epoch: int = NONE
    previous_producer_id: int = NONE
    next_producer_id: int = NONE
    start_ms: int = NONE
    updated_ms: int = NONE
    version: int = 0
    staged: Staged | None = None

    @property
    def exhausted(self) -> bool:
        """Whether the producer id has no further epoch."""
        return self.producer_epoch >= LAST_EPOCH

    def moved(self, to: TransactionState, now_ms: int, **changes: Any) -> Transaction:
        """Returns the transaction in its next state. Raises IllegalTransitionError."""
        if to not in MOVES[self.state]:
            raise IllegalTransactionStateError(f"{self.state.name} to {to.name}")
        return replace(self, state=to, updated_ms=now_ms, **changes)


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """The new state of a transactional id; None deletes it."""

    transactional_id: str
    transaction: Transaction | None


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """The end of the current block: ids with lower ordinals may have been assigned."""

    end: int


Record = TransactionRecord | ProducerIdsRecord


class IdRange(NamedTuple):
    """The remaining ids of the current block, as ordinals: `next` to before `stop`."""

    next: int
    stop: int


@dataclass(frozen=True, slots=True)
class IdsAssigned(SoftChange):
    """Ids were assigned: the remaining range of the block is another one from now on."""

    remaining: IdRange


class ProducerIds:
    """The ids of one of `shards` shards: `shard`, `shard + shards`, …

    `end` is durable: ordinals below it may have been assigned. `remaining` is soft state.
    """

    __slots__ = ("_shard", "_shards", "end", "remaining")

    def __init__(self, shard: int, shards: int) -> None:
        self._shard = shard
        self._shards = shards
        self.end = 0
        self.remaining = IdRange(0, 0)

    def id_of(self, ordinal: int) -> int:
        """Returns the producer id with an ordinal."""
        return ordinal * self._shards + self._shard


class IdAllocation:
    """Assigns ids within one decision without changing `ids`."""

    __slots__ = ("_before", "_ids", "end", "remaining")

    def __init__(self, ids: ProducerIds) -> None:
        self._ids = ids
        self._before = self.remaining = ids.remaining
        self.end = ids.end

    def new_id(self) -> int:
        """Returns the next id; begins a new block if the current one is used up."""
        if self.remaining.next >= self.remaining.stop:
            self.remaining = IdRange(self.end, self.end + BLOCK)
            self.end += BLOCK
        ordinal = self.remaining.next
        self.remaining = IdRange(ordinal + 1, self.remaining.stop)
        return self._ids.id_of(ordinal)

    @property
    def new_end(self) -> int | None:
        """The end to record; None if no block began."""
        return self.end if self.end != self._ids.end else None

    @property
    def soft(self) -> tuple[SoftChange, ...]:
        """The soft change of the decision; none if no id was assigned."""
        return () if self.remaining == self._before else (IdsAssigned(self.remaining),)
