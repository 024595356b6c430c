"""Fetches from several leaders."""

from __future__ import annotations

import asyncio

from sharebroker_protocol.errors import ErrorCode
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import refusing
from tests.unit.gateway.share.requests import ACCEPT, acknowledge, answered, fetch, records_of


async def test_moved_partition_is_fetched_from_its_new_leader(harness: Harness) -> None:
    harness.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def settle(_: str) -> None:
        harness.leader.answer = records_of(0)

    harness.ownership.on_forget = settle
    parts = answered(await harness.share.ShareFetch(fetch(0, 0, max_wait_ms=5_000)))
    assert parts[0].records == b"batch"
    harness.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    acks = {0: [(0, 9, [ACCEPT])]}
    assert answered(await harness.share.ShareAcknowledge(acknowledge(1, acks)))[0].error_code == 0


async def test_partition_without_leader_fails_at_the_end_of_the_wait(harness: Harness) -> None:
    harness.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    part = answered(await harness.share.ShareFetch(fetch(0, 0, max_wait_ms=10)))[0]
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (-1, -1)


async def test_several_leaders_fill_one_response_up_to_its_limit(harness: Harness) -> None:
    other = harness.local_leader(2, 1)
    harness.leader.answer = other.answer = records_of(0, 1)
    parts = answered(await harness.share.ShareFetch(fetch(0, 0, 1, max_records=15)))
    assert {index: bool(part.records) for index, part in parts.items()} == {0: True, 1: True}
    assert [asked.max_records for asked in (*harness.leader.asked, *other.asked)] == [15, 5]

    harness.leader.asked.clear()
    other.asked.clear()
    parts = answered(await harness.share.ShareFetch(fetch(1, max_records=10)))
    assert list(parts) == [1]  # its turn to be first, and that is enough
    assert harness.leader.asked == []


async def test_fetch_from_several_leaders_waits_for_a_notification(harness: Harness) -> None:
    other = harness.local_leader(2, 1)
    task = asyncio.ensure_future(harness.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=20_000)))
    await eventually(lambda: harness.leader.watching and other.watching)
    other.comes.set()  # but nothing can be had of it yet
    await eventually(lambda: len(other.asked) > 2)
    other.answer = records_of(1)
    assert answered(await task)[1].records == b"batch"
    assert all(asked.max_wait_ms == 0 for asked in harness.leader.asked)
    await eventually(lambda: not harness.leader.watching)


async def test_several_leaders_without_records_are_called_once(harness: Harness) -> None:
    other = harness.local_leader(2, 1)
    task = asyncio.ensure_future(harness.share.ShareFetch(fetch(0, 0, 1, max_wait_ms=300)))
    await eventually(lambda: harness.leader.watching and other.watching)
    assert answered(await task).keys() == {0, 1}
    assert (len(harness.leader.asked), len(other.asked)) == (2, 2)  # as it came, and when its time was up
