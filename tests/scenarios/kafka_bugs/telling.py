"""Words that the scenarios share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import patch

import pytest

from sharebroker_protocol.model import SharePartitionKey
from tests.unit.share_partition_leader.world import GROUP, TOPIC, World

KEY = SharePartitionKey(GROUP, TOPIC, 0)


async def given(world: World, member: str, **options: Any) -> list[int]:
    """The offsets that a member is given by one call."""
    [answer] = await world.acquire(member=member, **options)
    assert not answer.error_code, answer
    return [offset for run in answer.acquired for offset in range(run.first_offset, run.last_offset + 1)]


async def fails_without(
    safeguard: tuple[object, str, Callable[..., Any]], story: Callable[[World], Awaitable[None]], world: World
) -> None:
    """The story does not end well where the attribute of an object does something else."""
    with patch.object(*safeguard), pytest.raises((AssertionError, TimeoutError)):
        await story(world)
