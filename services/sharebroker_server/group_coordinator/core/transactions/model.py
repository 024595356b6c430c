"""A transactional id, its producer and its transaction, and the table of legal transitions.

Source: Kafka's TransactionMetadata and TransactionState (KIP-98, KIP-360, KIP-890).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, NamedTuple

from sharebroker_protocol.model import TopicIdPartition

NONE: Final = -1
"""Stands for no producer id, no epoch, no time."""

LAST_EPOCH: Final = 2**15 - 2
"""The last epoch that a producer receives: one more remains to fence it."""

RENEWS_EPOCH: Final = 2
"""The transaction.version from which each transaction has its own producer epoch."""


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


class IllegalTransitionError(Exception):
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
            raise IllegalTransitionError(f"{self.state.name} to {to.name}")
        return replace(self, state=to, updated_ms=now_ms, **changes)
