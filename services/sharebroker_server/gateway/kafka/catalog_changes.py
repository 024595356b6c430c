"""Requests that change several topics or configs.

Invalid items are rejected locally and the rest is forwarded in one call. Replica assignments are checked as
in Kafka and have no effect, since Redis stores the copies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import Turns

I = TypeVar("I")  # noqa: E741 - an item of a request
P = TypeVar("P")
A = TypeVar("A")


class ItemResult(Protocol):
    """A result with an error of its own."""

    error_code: Any
    error_message: str


R = TypeVar("R", bound=ItemResult)

_PORTION: Final = 50
"""The number of items that are converted in one turn of the event loop; a created topic has 30 configs."""


async def each_item(
    turns: Turns,
    items: Sequence[I],
    translate: Callable[[I], P],
    send: Callable[[list[P]], Awaitable[Iterable[R]]],
    succeeded: Callable[[I, R], A],
    failed: Callable[[I, KafkaError], A],
) -> list[A]:
    """Returns the result of each item, in order.

    Other requests are served between portions.

    `translate` converts an item, or rejects it with a KafkaError; `send` receives all others together.
    """
    results: dict[int, A] = {}
    valid: dict[int, P] = {}
    for number, item in enumerate(items):
        if number % _PORTION == _PORTION - 1:
            await turns.next()
        try:
            valid[number] = translate(item)
        except KafkaError as error:
            results[number] = failed(item, error)
    for number, result in zip(valid, await send([*valid.values()]) if valid else (), strict=True):
        if number % _PORTION == _PORTION - 1:
            await turns.next()
        if result.error_code:
            failure = KafkaError(ErrorCode(result.error_code), result.error_message)
            results[number] = failed(items[number], failure)
        else:
            results[number] = succeeded(items[number], result)
    return [results[number] for number in range(len(items))]


def duplicate_check(names: Iterable[Hashable], what: str) -> Callable[[Hashable], None]:
    """Returns a check that raises INVALID_REQUEST for a name that is more than once among `names`."""
    counted = Counter(names)

    def check(name: Hashable) -> None:
        if counted[name] > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate {what}: {name}.")

    return check


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
    """Raises INVALID_REPLICA_ASSIGNMENT unless all assignments have equally many known brokers."""
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
