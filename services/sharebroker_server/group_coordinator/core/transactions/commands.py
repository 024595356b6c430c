"""Commands to a shard of the transaction coordinator, their replies, soft changes and effects."""

from __future__ import annotations

from dataclasses import dataclass

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.coordinator_runtime.machine import Effect, SoftChange
from sharebroker_server.group_coordinator.core.transactions.model import (
    Staged,
    Transaction,
    TransactionState,
    Verdict,
)


@dataclass(frozen=True, slots=True)
class ProducerIdAndEpoch:
    """A producer id and its epoch."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """Requests a `ProducerIdAndEpoch` for a transactional id, or `Aborting`; the earlier producer is fenced.

    `expected` is the caller's earlier producer, which it resumes after an error: another producer that has
    used the transactional id since fences the caller.
    """

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None


@dataclass(frozen=True, slots=True)
class Aborting:
    """The open transaction is being aborted; the caller must retry afterwards."""


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Adds partitions to the transaction; begins one if none is open."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: frozenset[TopicIdPartition]
    version: int = 0


@dataclass(frozen=True, slots=True)
class VerifyPartitions:
    """Requests which of the partitions are part of the open transaction."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True)
class End:
    """Commits or aborts. The reply is the `ProducerIdAndEpoch` of the next transaction."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    commit: bool
    version: int = 0


@dataclass(frozen=True, slots=True)
class ReadEnding:
    """Requests the `Transaction` if it is decided and not completed, else None."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class Ended:
    """Every partition has its marker; `producer` is the producer in the markers."""

    transactional_id: str
    producer: ProducerIdAndEpoch


@dataclass(frozen=True, slots=True)
class Describe:
    """Requests the `Transaction`. Raises TRANSACTIONAL_ID_NOT_FOUND."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class ListTransactions:
    """Requests transactions by transactional id; an empty filter matches all, durations are in ms."""

    states: frozenset[TransactionState] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1


@dataclass(frozen=True, slots=True)
class Stage:
    """Stages verdicts of a planned batch."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    batch: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class ReadStaged:
    """Requests what is `Staged` for a batch; `reconciled` records that the verdicts were carried out."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    batch: str
    reconciled: bool = False


@dataclass(frozen=True, slots=True)
class NewProducer:
    """Requests a `ProducerIdAndEpoch` without a transactional id."""


OfTransaction = (
    InitProducerId
    | AddPartitions
    | VerifyPartitions
    | End
    | ReadEnding
    | Ended
    | Describe
    | Stage
    | ReadStaged
)
"""The commands about one transactional id."""

Command = OfTransaction | ListTransactions | NewProducer
Reply = (
    ProducerIdAndEpoch
    | Aborting
    | Transaction
    | Staged
    | frozenset[TopicIdPartition]
    | dict[str, Transaction]
    | None
)


@dataclass(frozen=True, slots=True)
class DeadlineMoved(SoftChange):
    """The deadline of a transactional id, for its timeout or its expiry, moves; None removes it."""

    expiry: bool
    transactional_id: str
    deadline: float | None


@dataclass(frozen=True, slots=True)
class CompletionsRequested(SoftChange):
    """The completion of these transactions was requested."""

    transactional_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class CompletionRequested(Effect):
    """The transaction is decided: the service must write its markers."""

    transactional_id: str
