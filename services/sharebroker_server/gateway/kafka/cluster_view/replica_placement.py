"""Checks replica assignments as Kafka does. They have no effect, since Redis stores the copies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError

DEFAULT: Final = -1
"""Means the broker's default number of partitions or replicas."""

REPLICAS: Final = 1
"""The replicas of a partition in responses."""


def check_replication_factor(factor: int, brokers: Collection[int]) -> None:
    """Raises INVALID_REPLICATION_FACTOR if there are fewer brokers."""
    if factor != DEFAULT and factor < 1:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} "
            f"cannot be reached because only {len(brokers)} broker(s) are registered.",
        )


def check_assignments(assignments: Sequence[Sequence[int]], brokers: Collection[int]) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT unless all assignments have equally many brokers, all of them
    known.
    """
    for replicas in assignments:
        if not replicas:
            raise _invalid("The manual partition assignment includes an empty replica list.")
        if len(set(replicas)) < len(replicas):
            raise _invalid(f"The manual partition assignment names a broker twice: {list(replicas)}.")
        if missing := set(replicas) - set(brokers):
            raise _invalid(
                f"The manual partition assignment includes broker {min(missing)}, which is not registered."
            )
    if len({len(replicas) for replicas in assignments}) > 1:
        raise _invalid("The manual partition assignment has partitions with different numbers of replicas.")


def check_numbering(partitions: Collection[int]) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT unless the partitions are 0, 1, 2 and so on, each once."""
    if sorted(partitions) != list(range(len(partitions))):
        raise _invalid("Partitions should be a consecutive 0-based integer sequence.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
