"""Idle share sessions are evicted, and their records are released."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.share.session_end import SessionReaper
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.share.requests import fetch, refused


async def test_idle_session_is_evicted_and_released(harness: Harness) -> None:
    harness.gateway.config = replace(harness.gateway.config, connections_max_idle_ms=1)
    await harness.share.ShareFetch(fetch(0, 0, 1))
    idle = SessionReaper(harness.gateway)
    idle.start()
    await eventually(lambda: harness.leader.of(leader.ReleaseMemberRequest))
    await idle.stop()
    (release,) = harness.leader.of(leader.ReleaseMemberRequest)
    assert (release.group_id, release.member_id, len(release.partitions)) == ("group", "me", 2)
    assert (await refused(harness.share.ShareFetch(fetch(1)))).code is ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_idle_limit_minus_1_starts_no_reaper(harness: Harness) -> None:
    harness.gateway.config = replace(harness.gateway.config, connections_max_idle_ms=-1)
    idle = SessionReaper(harness.gateway)
    before = asyncio.all_tasks()
    idle.start()
    assert asyncio.all_tasks() == before
    await idle.stop()
