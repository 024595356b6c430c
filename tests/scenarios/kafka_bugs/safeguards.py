"""Helpers of the scenarios."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import patch

import pytest

from sharebroker_protocol.model import SharePartitionKey
from tests.unit.share_partition_leader.harness import GROUP, TOPIC, Harness

KEY = SharePartitionKey(GROUP, TOPIC, 0)


async def acquired(harness: Harness, member: str, **options: Any) -> list[int]:
    """Returns the offsets that a member acquires by one call."""
    [response] = await harness.acquire(member=member, **options)
    assert not response.error_code, response
    return [offset for run in response.acquired for offset in range(run.first_offset, run.last_offset + 1)]


async def fails_without(
    safeguard: tuple[object, str, Callable[..., Any]],
    story: Callable[[Harness], Awaitable[None]],
    harness: Harness,
) -> None:
    """Checks that the scenario fails when an object's attribute is replaced."""
    with patch.object(*safeguard), pytest.raises((AssertionError, TimeoutError)):
        await story(harness)
