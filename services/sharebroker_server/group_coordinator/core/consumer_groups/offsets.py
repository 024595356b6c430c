"""Offsets of consumer groups, committed or pending in transactions: the part of their state in the log.

A pending offset is part of a producer's transaction; the commit of the transaction makes it effective.
Source: Kafka's OffsetMetadataManager. If several producers have offsets of one partition, the one written
last wins, in whichever order their transactions end; `order` numbers the writes, as the log offset does in
Kafka. An offset committed outside of transactions is newer than all pending ones and drops them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.consumer_groups import commands as c
from sharebroker_server.group_coordinator.core.validation import group_error

MOST_OF_A_PRODUCER: Final = 10_000
"""The limit of offsets of one transaction in a shard: its end is one record."""

MOST_TEXT: Final = 1 << 20
"""The limit of the bytes of their metadata."""

MOST_OF_A_GROUP: Final = 100_000


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """A group's committed offset of a partition; None deletes it (Kafka: OffsetCommitKey)."""

    group_id: str
    partition: TopicIdPartition
    committed: c.Committed | None

    @property
    def key(self) -> tuple[str, str, str]:
        """The key (`share_groups.group.Key`)."""
        return ("offset", self.group_id, f"{self.partition.topic_id}:{self.partition.partition}")


class CommittedOffsets:
    """Changes by `apply` only; contains no group without an offset."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicIdPartition, c.Committed]] = {}

    def apply(self, record: OffsetRecord) -> None:
        """Applies a record."""
        if record.committed is not None:
            self._groups.setdefault(record.group_id, {})[record.partition] = record.committed
            return
        offsets = self._groups.get(record.group_id, {})
        offsets.pop(record.partition, None)
        if not offsets:
            self._groups.pop(record.group_id, None)

    def of(self, group_id: str) -> Mapping[TopicIdPartition, c.Committed]:
        """Returns the committed offsets of a group."""
        return self._groups.get(group_id, {})

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)


class UnverifiedOffsetsError(KafkaError):
    """The transaction has no offsets here yet: its coordinator must confirm it first (INVALID_TXN_STATE)."""


class Place(NamedTuple):
    """A group and a partition."""

    group_id: str
    partition: TopicIdPartition


@dataclass(frozen=True, slots=True)
class PendingOffset:
    """An offset in a producer's transaction; coordinators of a lower epoch cannot end the transaction."""

    producer_epoch: int
    coordinator_epoch: int
    order: int
    committed: c.Committed


@dataclass(frozen=True, slots=True)
class PendingRecord:
    """A pending offset; None drops it."""

    producer_id: int
    place: Place
    pending: PendingOffset | None

    @property
    def key(self) -> tuple[str, str, str]:
        """The key (`share_groups.group.Key`)."""
        group_id, (topic_id, partition) = self.place
        return ("pending", group_id, f"{self.producer_id}:{topic_id}:{partition}")


class TransactionalCommit(NamedTuple):
    """An offset committed by a transaction; it drops pending offsets of the place with a lower `order`."""

    place: Place
    order: int
    committed: c.Committed


@dataclass(frozen=True, slots=True)
class TransactionEndRecord:
    """The end of a producer's transaction in all groups of the shard; without outcomes it was aborted."""

    producer_id: int
    outcomes: tuple[TransactionalCommit, ...] = ()


class PendingOffsets:
    """Changes by `apply` and `end` only."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicIdPartition, dict[int, PendingOffset]]] = {}
        self._producers: dict[int, dict[Place, PendingOffset]] = {}

    def apply(self, record: PendingRecord) -> None:
        """Applies a record."""
        if record.pending is None:
            self._drop(record.producer_id, record.place)
            return
        group_id, partition = record.place
        self._producers.setdefault(record.producer_id, {})[record.place] = record.pending
        at = self._groups.setdefault(group_id, {}).setdefault(partition, {})
        at[record.producer_id] = record.pending

    def end(self, record: TransactionEndRecord) -> list[PendingRecord]:
        """Applies the end of a transaction; returns tombstones of the pending offsets that it removes."""
        removed = [PendingRecord(record.producer_id, place, None) for place in self.open(record.producer_id)]
        for place, order, _ in record.outcomes:
            removed += [
                PendingRecord(producer_id, place, None)
                for producer_id, pending in self.at(place).items()
                if producer_id != record.producer_id and pending.order < order
            ]
        for tombstone in removed:
            self.apply(tombstone)
        return removed

    def of(self, group_id: str) -> frozenset[TopicIdPartition]:
        """Returns the partitions with pending offsets in a group."""
        return frozenset(self._groups.get(group_id, ()))

    def at(self, place: Place) -> Mapping[int, PendingOffset]:
        """Returns the pending offsets of a place, by producer id."""
        return self._groups.get(place.group_id, {}).get(place.partition, {})

    def open(self, producer_id: int) -> Mapping[Place, PendingOffset]:
        """Returns the pending offsets of a producer."""
        return self._producers.get(producer_id, {})

    def drops(self, place: Place) -> Iterator[PendingRecord]:
        """Returns the records that drop all pending offsets of a place."""
        return (PendingRecord(producer_id, place, None) for producer_id in sorted(self.at(place)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def check_continues(self, command: c.CommitInTransaction) -> None:
        """Checks that the command continues the producer's transaction.

        Raises UnverifiedError, INVALID_PRODUCER_EPOCH, CONCURRENT_TRANSACTIONS.
        """
        known = next(iter(self.open(command.producer_id).values()), None)
        if known is None:
            if command.coordinator_epoch is None:
                raise UnverifiedOffsetsError(
                    ErrorCode.INVALID_TXN_STATE,
                    f"Producer {command.producer_id} has no open transaction here.",
                )
        elif command.producer_epoch < known.producer_epoch:
            raise _older(command.producer_id, command.producer_epoch, known)
        elif command.producer_epoch > known.producer_epoch:
            raise KafkaError(
                ErrorCode.CONCURRENT_TRANSACTIONS,
                f"The last transaction of producer {command.producer_id} has not ended here yet.",
                retry_after=0.02,
            )

    def committed(
        self, command: c.CommitInTransaction, offsets: Mapping[TopicIdPartition, c.Committed]
    ) -> tuple[PendingRecord, ...]:
        """Returns the records that add offsets to the transaction. Raises INVALID_COMMIT_OFFSET_SIZE."""
        before = self.open(command.producer_id)
        group_id = command.member.group_id
        after: dict[Place, PendingOffset] = {}
        for partition, committed in offsets.items():
            place = Place(group_id, partition)
            order = 1 + max((pending.order for pending in self.at(place).values()), default=0)
            after[place] = PendingOffset(
                command.producer_epoch, self._coordinator_epoch(command), order, committed
            )
        self._check_limits(group_id, {**before, **after}, len(after.keys() - before.keys()))
        return tuple(PendingRecord(command.producer_id, place, pending) for place, pending in after.items())

    def ended(self, command: c.CompleteTransaction) -> TransactionEndRecord | None:
        """Returns the record of a transaction's end; None if it has no pending offsets.

        Raises INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        remaining = self.open(command.producer_id)
        for pending in remaining.values():
            if command.producer_epoch < pending.producer_epoch:
                raise _older(command.producer_id, command.producer_epoch, pending)
            if command.coordinator_epoch < pending.coordinator_epoch:
                raise KafkaError(
                    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                    f"Coordinator epoch {command.coordinator_epoch} is below {pending.coordinator_epoch}.",
                )
        if not remaining:
            return None
        outcomes = (
            TransactionalCommit(place, pending.order, pending.committed)
            for place, pending in remaining.items()
        )
        return TransactionEndRecord(command.producer_id, tuple(outcomes) if command.commit else ())

    def _coordinator_epoch(self, command: c.CommitInTransaction) -> int:
        if command.coordinator_epoch is not None:
            return command.coordinator_epoch
        return next(iter(self.open(command.producer_id).values())).coordinator_epoch

    def _check_limits(self, group_id: str, of_producer: Mapping[Place, PendingOffset], more: int) -> None:
        text = sum(len(pending.committed.metadata.encode()) for pending in of_producer.values())
        of_group = sum(map(len, self._groups.get(group_id, {}).values())) + more
        if len(of_producer) > MOST_OF_A_PRODUCER or text > MOST_TEXT or of_group > MOST_OF_A_GROUP:
            raise group_error(
                ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
                group_id,
                f"A transaction may have {MOST_OF_A_PRODUCER} pending offsets with {MOST_TEXT} bytes of "
                f"metadata, a group {MOST_OF_A_GROUP} pending offsets.",
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


def value_of(fact: OffsetRecord | PendingRecord) -> c.Committed | None:
    """Returns the offset of a record; None if it deletes one."""
    if isinstance(fact, OffsetRecord):
        return fact.committed
    return fact.pending.committed if fact.pending is not None else None


def _older(producer_id: int, epoch: int, pending: PendingOffset) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"Producer {producer_id} has epoch {pending.producer_epoch}; {epoch} is older.",
    )
