"""KAFKA-19567: a waiting fetch was kept by a former leader."""

from __future__ import annotations

import asyncio

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.share_partition_leader.requests.local_leader import Fetch
from tests.scenarios.kafka_bugs.safeguards import fails_without
from tests.unit.share_partition_leader.harness import Harness, code
from tests.unit.share_partition_leader.virtual_time import settle


async def a_waiting_fetch_is_sent_to_the_new_leader(harness: Harness) -> None:
    waiting = asyncio.create_task(harness.acquire(max_wait_ms=60_000))
    await settle()
    async with asyncio.timeout(10.0):
        await harness.hand_over()
        [response] = await waiting
    assert code(response) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_waiting_fetch_is_redirected_to_the_new_leader(harness: Harness) -> None:
    await a_waiting_fetch_is_sent_to_the_new_leader(harness)


async def test_without_a_notification_the_fetch_waits(harness: Harness) -> None:
    deaf = (Fetch, "retired", lambda *_: None)
    await fails_without(deaf, a_waiting_fetch_is_sent_to_the_new_leader, harness)
