"""What a transaction coordinator knows of one transactional id, and how that may change.

Source: Kafka's TransactionMetadata and TransactionState (KIP-98, KIP-360, KIP-890).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, NamedTuple

from sharebroker_protocol.model import TopicIdPartition

NONE: Final = -1
"""No producer id, no epoch, no time."""

LAST_EPOCH: Final = 2**15 - 2
"""The last epoch a producer gets to see: one more is left to fence it."""

RENEWS_EPOCH: Final = 2
"""From this transaction.version on each transaction has a producer epoch of its own."""


class TransactionState(Enum):
    """Kafka's names."""

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
"""What is absent is illegal. An abort without a record skips PREPARE_ABORT: there is nobody to tell."""

IDLE: Final = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""No transaction is open, none is being ended."""

ENDING: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""Decided, and markers are on their way to the partitions."""


class IllegalTransitionError(Exception):
    """A transaction was asked to go where the table does not lead."""


class Verdict(NamedTuple):
    """Offsets first..last of a topic's partition, and what is said of them (an AcknowledgeType)."""

    topic: str
    partition: int
    first: int
    last: int
    kind: int


@dataclass(frozen=True, slots=True)
class Staged:
    """What was said of records of a planned batch, ascending, and by which producer epoch.

    It is in force when the batch is committed. `settled`: it was carried out.
    """

    batch: str
    producer_epoch: int
    verdicts: tuple[Verdict, ...] = ()
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id's producer and its latest transaction; -1 stands for no id, no epoch, no time.

    `last_producer_epoch` is the epoch that was replaced by the present one on the producer's own wish: it may
    ask again. `previous_producer_id` is the one before the epochs ran out, `next_producer_id` the one after a
    transaction that is being ended. `version` is the transaction.version of who wrote last. `staged`: of a
    session of planned batches.
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
        """Whether the producer id has no epoch left to give."""
        return self.producer_epoch >= LAST_EPOCH

    def moved(self, to: TransactionState, now_ms: int, **changes: Any) -> Transaction:
        """The transaction in its next state. Raises IllegalTransitionError."""
        if to not in MOVES[self.state]:
            raise IllegalTransitionError(f"{self.state.name} to {to.name}")
        return replace(self, state=to, updated_ms=now_ms, **changes)
