"""Requests about many groups: only those that this broker coordinates are looked at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.dispatch.call import Call

R = TypeVar("R")


async def each_group(
    call: Call,
    group_ids: Iterable[str],
    ask: Callable[[Sequence[str]], Awaitable[Iterable[R]]],
    refused: Callable[[str, KafkaError], R],
) -> list[R]:
    """An answer for each group, in order: from `ask`, or `refused` with NOT_COORDINATOR."""
    asked = list(dict.fromkeys(group_ids))
    own = [group_id for group_id in asked if coordinates(call, group_id)]
    answers = dict(zip(own, await ask(own) if own else (), strict=True))
    wrong = KafkaError(ErrorCode.NOT_COORDINATOR)
    return [answers[group_id] if group_id in answers else refused(group_id, wrong) for group_id in asked]


def coordinates(call: Call, group_id: str) -> bool:
    """Whether clients are to ask this broker about the group."""
    return call.view.coordinator(group_id) == call.view.me
