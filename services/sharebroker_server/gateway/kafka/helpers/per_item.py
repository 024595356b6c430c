"""Batch requests: rejects invalid items locally and forwards the rest in one call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, Protocol, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError

I = TypeVar("I")  # noqa: E741 - an item of a request
P = TypeVar("P")


class ItemResult(Protocol):
    """A result with an error of its own."""

    error_code: Any
    error_message: str


R = TypeVar("R", bound=ItemResult)


async def each_item(
    items: Iterable[I], translate: Callable[[I], P], send: Callable[[list[P]], Awaitable[Iterable[R]]]
) -> list[R | KafkaError]:
    """Returns the result of each item, in order.

    `translate` converts an item, or rejects it with a KafkaError; `send` receives all others together.
    """
    translated = [_attempt(translate, item) for item in items]
    valid = [item for item in translated if not isinstance(item, KafkaError)]
    results = iter(await send(valid) if valid else ())
    return [item if isinstance(item, KafkaError) else _outcome(next(results)) for item in translated]


def duplicate_check(names: Iterable[Hashable], what: str) -> Callable[[Hashable], None]:
    """Returns a check that raises INVALID_REQUEST for a name that is more than once among `names`."""
    counted = Counter(names)

    def check(name: Hashable) -> None:
        if counted[name] > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate {what}: {name}.")

    return check


def error_fields(result: object) -> dict[str, Any]:
    """Returns the error fields of a response for a KafkaError; none for any other result."""
    if isinstance(result, KafkaError):
        return {"error_code": result.code, "error_message": result.message}
    return {}


def _attempt(translate: Callable[[I], P], item: I) -> P | KafkaError:
    try:
        return translate(item)
    except KafkaError as error:
        return error


def _outcome(result: R) -> R | KafkaError:
    if result.error_code:
        return KafkaError(ErrorCode(result.error_code), result.error_message)
    return result
