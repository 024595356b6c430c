"""Offsets that a consumer group commits in a producer's transaction: they count when that is committed.

Source: Kafka's OffsetMetadataManager. Of several producers with offsets of one partition the one that wrote
last counts, in whichever order their transactions end; `order` says which that is, as the place in the log
does in Kafka. What is committed outside transactions meanwhile is newer than all of them: they are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.consumers.commands import (
    CommitInTransaction,
    Committed,
    CompleteTransaction,
)
from sharebroker_server.group_coordinator.core.consumers.offsets import named

PENDING: Final = "pending"

MOST_OF_A_PRODUCER: Final = 10_000
"""Offsets of one transaction in a shard: its end is one record."""

MOST_TEXT: Final = 1 << 20
"""Bytes of the texts beside them."""

MOST_OF_A_GROUP: Final = 100_000


class UnverifiedError(KafkaError):
    """The first offsets of a transaction, which its coordinator has to confirm first (INVALID_TXN_STATE)."""


class Place(NamedTuple):
    """A group's offset of a partition."""

    group_id: str
    partition: TopicIdPartition


@dataclass(frozen=True, slots=True)
class Pending:
    """What a producer's transaction is to commit; coordinators of a lower epoch cannot end it any more."""

    producer_epoch: int
    coordinator_epoch: int
    order: int
    committed: Committed


@dataclass(frozen=True, slots=True)
class PendingRecord:
    """An offset that is pending; None when it is dropped."""

    producer_id: int
    place: Place
    pending: Pending | None

    @property
    def key(self) -> tuple[str, str, str]:
        """See `sharebroker_server.group_coordinator.core.records.Key`."""
        group_id, (topic_id, partition) = self.place
        return (PENDING, group_id, f"{self.producer_id}:{topic_id}:{partition}")


class Outcome(NamedTuple):
    """An offset that a transaction has committed; what is pending there of a lower `order` is out of date."""

    place: Place
    order: int
    committed: Committed


@dataclass(frozen=True, slots=True)
class TransactionEndRecord:
    """A producer's transaction is over in all groups of the shard; without outcomes it was aborted."""

    producer_id: int
    outcomes: tuple[Outcome, ...] = ()


class PendingOffsets:
    """Changed by `apply` and `end` only."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicIdPartition, dict[int, Pending]]] = {}
        self._producers: dict[int, dict[Place, Pending]] = {}

    def apply(self, record: PendingRecord) -> None:
        """Takes a record in."""
        if record.pending is None:
            self._drop(record.producer_id, record.place)
            return
        group_id, partition = record.place
        self._producers.setdefault(record.producer_id, {})[record.place] = record.pending
        at = self._groups.setdefault(group_id, {}).setdefault(partition, {})
        at[record.producer_id] = record.pending

    def end(self, record: TransactionEndRecord) -> list[PendingRecord]:
        """Takes the end of a transaction in; what was pending until then, as tombstones."""
        gone = [PendingRecord(record.producer_id, place, None) for place in self.open(record.producer_id)]
        for place, order, _ in record.outcomes:
            gone += [
                PendingRecord(producer_id, place, None)
                for producer_id, pending in self.at(place).items()
                if producer_id != record.producer_id and pending.order < order
            ]
        for one in gone:
            self.apply(one)
        return gone

    def of(self, group_id: str) -> frozenset[TopicIdPartition]:
        """Partitions of which something is pending."""
        return frozenset(self._groups.get(group_id, ()))

    def at(self, place: Place) -> Mapping[int, Pending]:
        """What is pending in a place, by producer id."""
        return self._groups.get(place.group_id, {}).get(place.partition, {})

    def open(self, producer_id: int) -> Mapping[Place, Pending]:
        """What a producer's transaction is to commit here."""
        return self._producers.get(producer_id, {})

    def drops(self, place: Place) -> Iterator[PendingRecord]:
        """The records after which nothing is pending in a place."""
        return (PendingRecord(producer_id, place, None) for producer_id in sorted(self.at(place)))

    def record(self, group_id: str, name: str) -> PendingRecord:
        """What is pending, to be written anew; `name` is the last part of its key."""
        producer, _, partition = name.partition(":")
        place = Place(group_id, named(partition))
        return PendingRecord(int(producer), place, self._producers[int(producer)][place])

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def check_goes_on(self, asked: CommitInTransaction) -> None:
        """Raises UnverifiedError, INVALID_PRODUCER_EPOCH, CONCURRENT_TRANSACTIONS."""
        known = next(iter(self.open(asked.producer_id).values()), None)
        if known is None:
            if asked.coordinator_epoch is None:
                raise UnverifiedError(
                    ErrorCode.INVALID_TXN_STATE,
                    f"No transaction of producer {asked.producer_id} is going on here.",
                )
        elif asked.producer_epoch < known.producer_epoch:
            raise _older(asked.producer_id, asked.producer_epoch, known)
        elif asked.producer_epoch > known.producer_epoch:
            raise KafkaError(
                ErrorCode.CONCURRENT_TRANSACTIONS,
                f"The last transaction of producer {asked.producer_id} has not ended here yet.",
                retry_after=0.02,
            )

    def committed(
        self, asked: CommitInTransaction, offsets: Mapping[TopicIdPartition, Committed]
    ) -> tuple[PendingRecord, ...]:
        """The records of offsets that may be pending. Raises INVALID_COMMIT_OFFSET_SIZE."""
        before = self.open(asked.producer_id)
        group_id = asked.member.group_id
        after: dict[Place, Pending] = {}
        for partition, committed in offsets.items():
            place = Place(group_id, partition)
            order = 1 + max((pending.order for pending in self.at(place).values()), default=0)
            after[place] = Pending(asked.producer_epoch, self._ender(asked), order, committed)
        self._check_room(group_id, {**before, **after}, len(after.keys() - before.keys()))
        return tuple(PendingRecord(asked.producer_id, place, one) for place, one in after.items())

    def ended(self, asked: CompleteTransaction) -> TransactionEndRecord | None:
        """The record of a transaction's end; None where nothing of it is pending.

        Raises INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        left = self.open(asked.producer_id)
        for pending in left.values():
            if asked.producer_epoch < pending.producer_epoch:
                raise _older(asked.producer_id, asked.producer_epoch, pending)
            if asked.coordinator_epoch < pending.coordinator_epoch:
                raise KafkaError(
                    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                    f"Coordinator epoch {asked.coordinator_epoch} is older than {pending.coordinator_epoch}.",
                )
        if not left:
            return None
        outcomes = (Outcome(place, one.order, one.committed) for place, one in left.items())
        return TransactionEndRecord(asked.producer_id, tuple(outcomes) if asked.commit else ())

    def _ender(self, asked: CommitInTransaction) -> int:
        if asked.coordinator_epoch is not None:
            return asked.coordinator_epoch
        return next(iter(self.open(asked.producer_id).values())).coordinator_epoch

    def _check_room(self, group_id: str, of_producer: Mapping[Place, Pending], more: int) -> None:
        text = sum(len(one.committed.metadata.encode()) for one in of_producer.values())
        of_group = sum(map(len, self._groups.get(group_id, {}).values())) + more
        if len(of_producer) > MOST_OF_A_PRODUCER or text > MOST_TEXT or of_group > MOST_OF_A_GROUP:
            raise KafkaError(
                ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
                f"{MOST_OF_A_PRODUCER} offsets with {MOST_TEXT} bytes of text may be pending of a "
                f"transaction, {MOST_OF_A_GROUP} offsets of a group.",
                metadata={"group_id": group_id},
            )

    def _drop(self, producer_id: int, place: Place) -> None:
        if self._producers.get(producer_id, {}).pop(place, None) is None:
            return
        if not self._producers[producer_id]:
            del self._producers[producer_id]
        partitions = self._groups[place.group_id]
        del partitions[place.partition][producer_id]
        if not partitions[place.partition]:
            del partitions[place.partition]
        if not partitions:
            del self._groups[place.group_id]


def _older(producer_id: int, epoch: int, pending: Pending) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"Producer {producer_id} has epoch {pending.producer_epoch}; {epoch} is older.",
    )
