"""Requests about several groups: only the groups that this broker coordinates are served."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.dispatch.call import Call

R = TypeVar("R")


async def each_group(
    call: Call,
    group_ids: Iterable[str],
    serve: Callable[[Sequence[str]], Awaitable[Iterable[R]]],
    rejected: Callable[[str, KafkaError], R],
) -> list[R]:
    """Returns the result of each group, in order: from `serve`, or `rejected` with NOT_COORDINATOR."""
    requested = list(dict.fromkeys(group_ids))
    own = [group_id for group_id in requested if coordinates(call, group_id)]
    results = dict(zip(own, await serve(own) if own else (), strict=True))
    error = KafkaError(ErrorCode.NOT_COORDINATOR)
    return [results[group] if group in results else rejected(group, error) for group in requested]


def coordinates(call: Call, group_id: str) -> bool:
    """Returns whether this broker coordinates the group."""
    return call.view.coordinator(group_id) == call.view.local_id
