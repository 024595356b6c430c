"""Requests about several things: what cannot be is refused here, the rest goes on in one call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError

A = TypeVar("A")
P = TypeVar("P")


class Coded(Protocol):
    """An answer with an error of its own."""

    error_code: Any
    error_message: str


R = TypeVar("R", bound=Coded)


async def each(
    asked: Iterable[A], translate: Callable[[A], P], send: Callable[[list[P]], Awaitable[Iterable[R]]]
) -> list[R | KafkaError]:
    """The outcome for each of `asked`, in order: `translate` may refuse it, `send` gets the others."""
    parts = [_attempt(translate, one) for one in asked]
    wanted = [part for part in parts if not isinstance(part, KafkaError)]
    answers = iter(await send(wanted) if wanted else ())
    return [part if isinstance(part, KafkaError) else _outcome(next(answers)) for part in parts]


def check_once(things: Iterable[Hashable], what: str) -> Callable[[Hashable], None]:
    """A check that raises INVALID_REQUEST for a thing that stands among `things` more than once."""
    counted = Counter(things)

    def check(thing: Hashable) -> None:
        if counted[thing] > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate {what}: {thing}.")

    return check


def error_fields(outcome: object) -> dict[str, Any]:
    """The fields of an answer that say why it is a refusal; none for one that is not."""
    if isinstance(outcome, KafkaError):
        return {"error_code": outcome.code, "error_message": outcome.message}
    return {}


def refusal(error: KafkaError, asked: Sequence[Any]) -> list[KafkaError]:
    """The outcome for each of `asked` when the request failed as a whole."""
    return [error] * len(asked)


def _attempt(translate: Callable[[A], P], one: A) -> P | KafkaError:
    try:
        return translate(one)
    except KafkaError as error:
        return error


def _outcome(answer: R) -> R | KafkaError:
    if answer.error_code:
        return KafkaError(ErrorCode(answer.error_code), answer.error_message)
    return answer
