"""What a shard of the transaction coordinator is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.transactions.model import (
    Staged,
    Transaction,
    TransactionState,
    Verdict,
)


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer id and its epoch."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Initialize:
    """Asks for a `Producer` to go on with, or `Aborting`; whoever had the transactional id is fenced.

    `expected` is what the caller had: it goes on after an error unless somebody else has taken over.
    """

    transactional_id: str
    timeout_ms: int
    expected: Producer | None = None


@dataclass(frozen=True, slots=True)
class Aborting:
    """The open transaction is being aborted first; ask again when it is."""


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Makes partitions part of the transaction; one is begun if none is open."""

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicIdPartition]
    version: int = 0


@dataclass(frozen=True, slots=True)
class VerifyPartitions:
    """Asks which of the partitions are part of the open transaction."""

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True)
class End:
    """Commits or aborts. Asks for the `Producer` that the next transaction is to be written by."""

    transactional_id: str
    producer: Producer
    commit: bool
    version: int = 0


@dataclass(frozen=True, slots=True)
class AskEnding:
    """Asks for the `Transaction` that is being ended, None if none is."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class Ended:
    """Every partition has its marker; `producer` is what the markers carried."""

    transactional_id: str
    producer: Producer


@dataclass(frozen=True, slots=True)
class Describe:
    """Asks for the `Transaction`. Raises TRANSACTIONAL_ID_NOT_FOUND."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class ListTransactions:
    """Asks for transactions by transactional id; empty filters take all, durations in ms."""

    states: frozenset[TransactionState] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1


@dataclass(frozen=True, slots=True)
class Stage:
    """Keeps verdicts about a planned batch."""

    transactional_id: str
    producer: Producer
    batch: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class AskStaged:
    """Asks for what is `Staged` for a batch. `settle`: it was carried out; note that."""

    transactional_id: str
    producer: Producer
    batch: str
    settle: bool = False


@dataclass(frozen=True, slots=True)
class NewProducer:
    """Asks for a `Producer` without a transactional id."""


OfTransaction = (
    Initialize | AddPartitions | VerifyPartitions | End | AskEnding | Ended | Describe | Stage | AskStaged
)
"""What is about one transactional id."""

Command = OfTransaction | ListTransactions | NewProducer
Reply = (
    Producer | Aborting | Transaction | Staged | frozenset[TopicIdPartition] | dict[str, Transaction] | None
)
