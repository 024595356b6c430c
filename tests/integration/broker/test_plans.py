"""Planned batches over gRPC: planned once, returned again until committed, fenced, delivered to one consumer
only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from tests.support.client import ACCEPT, REJECT, RELEASE, RENEW, TIMEOUT, Client, rejection, unique
from tests.support.planned import Driver, count, places, texts
from tests.testkit.waiting import eventually

RECORDS = 20


async def driver_of(client: Client, partitions: int = 1, records: int = RECORDS, **configs: str) -> Driver:
    """Provides an open session on a new topic with evenly spread records."""
    topic, _ = await client.create(partitions)
    for partition in range(partitions if records else 0):
        await client.publish(topic, map(str, range(records // partitions)), partition=partition)
    return await Driver(client, await client.group(**configs), topic).open()


async def test_planned_batch_is_returned_again_until_committed(client: Client) -> None:
    driver = await driver_of(client)
    planned = await driver.plan(8)
    assert planned == [(0, 0, 7)]
    assert await driver.plan(8) == planned
    assert await driver.plan(20) == planned
    assert await driver.plan(20, commit=planned) == [(0, 8, 19)]
    assert await driver.plan(20, commit=[(0, 8, 19)]) == []
    assert driver.left == []


async def test_all_partitions_are_planned_from(client: Client) -> None:
    driver = await driver_of(client, 4)
    assert await driver.plan() == [(partition, 0, 4) for partition in range(4)]
    request = pb.PlanRequest(
        session=(await driver.another().open()).key,
        topics=[pb.PlanRequest.Topic(name=driver.topic, partitions=[2])],
        commit=driver.verdicts([(partition, 0, 4) for partition in range(4)], ACCEPT),
        max_records=10,
    )
    await client.publish(driver.topic, ["more"], partition=1)
    await client.publish(driver.topic, ["more"], partition=2)
    response = await client.plans.Plan(request, timeout=TIMEOUT)
    assert [(one.range.partition, one.range.first_offset) for one in response.ranges] == [(2, 5)]


async def test_planned_records_are_locked_and_committed_ones_finished(client: Client) -> None:
    driver = await driver_of(client)
    planned = await driver.plan(8)
    other = await client.acquire(driver.group_id, driver.topic, 20, member="other")
    assert [record.offset for record in other.records] == list(range(8, 20))
    await driver.commit(planned)
    topic_id = other.records[0].topic_id
    assert await client.finished(driver.group_id, topic_id) == set(range(8))
    await driver.commit(planned)
    assert driver.left == [(0, 0, 7, "finished")]


async def test_planned_batch_reports_delivery_counts_and_deadline(client: Client) -> None:
    driver = await driver_of(client)
    planned = await driver.plan(5)
    assert await driver.plan(20, commit=planned, kind=RELEASE) == [(0, 0, 4), (0, 5, 19)]
    request = pb.PlanRequest(
        session=driver.key, topics=[pb.PlanRequest.Topic(name=driver.topic)], max_records=20
    )
    response = await client.plans.Plan(request, timeout=TIMEOUT)
    assert [one.delivery_count for one in response.ranges] == [2, 1]
    assert await driver.renew() >= max(one.lock_deadline_ms for one in response.ranges)


async def test_planned_batch_may_be_columnar(client: Client) -> None:
    topic, _ = await client.create(3)
    for partition in (2, 0):
        await client.publish(topic, ["a", "b"], partition=partition)
    driver = await Driver(client, await client.group(), topic).open()
    request = pb.PlanRequest(
        session=driver.key, topics=[pb.PlanRequest.Topic(name=topic)], max_records=10, by_columns=True
    )
    for _ in range(2):  # what is acquired, and what is held
        response = await client.plans.Plan(request, timeout=TIMEOUT)
        (columns,) = response.columns
        assert (columns.topic, list(response.ranges)) == (topic, [])
        assert list(zip(columns.partitions, columns.first_offsets, columns.last_offsets, strict=True)) == [
            (0, 0, 1),
            (2, 0, 1),
        ]
        assert list(columns.delivery_counts) == [1, 1]
        assert min(columns.lock_deadlines_ms) > 0


async def test_commit_and_renew_may_be_columnar(client: Client) -> None:
    topic, _ = await client.create(3)
    for partition in (2, 0):
        await client.publish(topic, ["a", "b"], partition=partition)
    driver = await Driver(client, await client.group(), topic).open()
    planned = await driver.plan()
    await driver.release()
    columns = pb.PlanColumns(topic=topic, partitions=[0, 2], first_offsets=[0, 0], last_offsets=[1, 0])
    renewing = pb.RenewRequest(
        session=driver.key, topics=[topic], ranges=[driver.range(2, 1, 1)], columns=[columns]
    )
    assert (await client.plans.Renew(renewing, timeout=TIMEOUT)).lock_deadline_ms > 0
    topics = [pb.PlanRequest.Topic(name=topic)]
    request = pb.PlanRequest(session=driver.key, topics=topics, max_records=10, accepted=[columns])
    assert places((await client.plans.Plan(request, timeout=TIMEOUT)).ranges) == [(2, 1, 1)]
    rest = pb.PlanColumns(topic=topic, partitions=[2], first_offsets=[1], last_offsets=[1])
    await client.plans.Commit(pb.CommitRequest(session=driver.key, accepted=[rest]), timeout=TIMEOUT)
    await driver.commit(planned)
    assert driver.left == [(0, 0, 1, "finished"), (2, 0, 1, "finished")]


async def test_verdicts_take_effect_with_the_commit(client: Client) -> None:
    driver = await driver_of(client)
    await driver.plan(10)
    await driver.commit([(0, 0, 3)], REJECT)
    await driver.commit([(0, 4, 4)], RELEASE)
    await driver.commit([(0, 5, 9)])
    assert await driver.plan(3) == [(0, 4, 4), (0, 10, 11)]


async def test_staged_verdicts_are_applied_once_with_the_commit(client: Client) -> None:
    driver = await driver_of(client)
    planned = await driver.plan(10)
    await driver.stage([(0, 0, 1)], REJECT)
    await driver.stage([(0, 1, 1)], ACCEPT)
    await driver.stage([(0, 4, 5), (0, 15, 19)], RELEASE)  # the latter are no part of the batch
    assert await driver.plan(10) == planned
    following = await driver.plan(10, planned, batch="1")
    assert following == [(0, 4, 5), (0, 10, 17)]
    # A second commit of the first batch must not affect its records that are part of the next batch.
    assert await driver.plan(10, planned, batch="1") == following
    error = await rejection(driver.stage([(0, 4, 5)], REJECT))
    assert (error.code, error.fields) == (ErrorCode.INVALID_REQUEST, ("batch",))
    await driver.commit(following, batch="2")
    assert await driver.plan(10) == [(0, 18, 19)]
    topic = (
        await client.admin.Metadata(admin.MetadataRequest(topics=[driver.topic]), timeout=TIMEOUT)
    ).topics
    assert await client.finished(driver.group_id, topic[0].topic_id) == set(range(18))


async def test_staged_reject_is_applied(client: Client) -> None:
    driver = await driver_of(client)
    planned = await driver.plan(3)
    await driver.stage([(0, 0, 0)], RELEASE)
    await driver.stage([(0, 2, 2)], REJECT)
    await driver.commit(planned, batch="1")
    topic = (
        await client.admin.Metadata(admin.MetadataRequest(topics=[driver.topic]), timeout=TIMEOUT)
    ).topics
    state = (await client.inspect(driver.group_id, topic[0].topic_id)).folded
    assert [(one.first_offset, one.last_offset, one.delivery_state) for one in state.state_batches] == [
        (0, 0, 0),
        (1, 1, 2),
        (2, 2, 4),
    ]


async def test_next_driver_fences_and_clears_staged_verdicts(client: Client) -> None:
    driver = await driver_of(client)
    planned = await driver.plan(10)
    await driver.stage([(0, 0, 1)], REJECT)
    newer = await driver.another().open()
    assert (await rejection(driver.stage([(0, 0, 1)], REJECT))).code is ErrorCode.FENCED_MEMBER_EPOCH
    assert (await rejection(driver.plan(10, planned, batch="1"))).code is ErrorCode.FENCED_MEMBER_EPOCH
    await newer.stage([(0, 8, 9)], RELEASE)
    assert await newer.plan(4, planned, batch="1") == [(0, 8, 9), (0, 10, 11)]


async def test_lost_locks_are_reacquired_unless_another_member_holds_them(client: Client) -> None:
    driver = await driver_of(client, records=10)  # all of them: the other consumer waits for released ones
    planned = await driver.plan(10)
    await driver.release()
    other = (await client.acquire_all(driver.group_id, driver.topic, 4, "other"))[:4]
    await driver.renew(planned)
    taken = [record.offset for record in other]
    assert driver.left == [(0, taken[0], taken[-1], "taken")]
    await driver.commit(planned)
    assert driver.left == [(0, taken[0], taken[-1], "taken")]
    assert set(await client.acknowledge(driver.group_id, "other", other)) == {ErrorCode.NONE}


async def test_timed_out_locks_are_not_lost_before_reacquisition(client: Client) -> None:
    driver = await driver_of(client, share_record_lock_duration_ms="1000")
    planned = await driver.plan(10)

    async def lost() -> bool:
        state = (await client.inspect(driver.group_id, topic_id)).folded
        return any(batch.delivery_state == 0 for batch in state.state_batches)

    topic_id = (await client.acquire(driver.group_id, driver.topic, 1, member="other")).records[0].topic_id
    await eventually(lost, TIMEOUT)
    await driver.commit(planned)
    assert driver.left == []
    assert set(range(10)) <= await client.finished(driver.group_id, topic_id)


async def test_a_newer_driver_fences_the_older(client: Client) -> None:
    driver = await driver_of(client)
    planned = await driver.plan(10)
    newer = await driver.another().open()
    calls = (
        driver.plan(10, commit=planned),
        driver.commit(planned),
        driver.renew(planned),
        driver.release(),
    )
    for call in calls:
        error = await rejection(call)
        assert error.code is ErrorCode.FENCED_MEMBER_EPOCH
        assert "newer driver" in error.text
    assert await newer.plan(10) == planned
    assert await newer.plan(10, commit=planned) == [(0, 10, 19)]


async def test_unopened_session_is_rejected(client: Client) -> None:
    driver = await driver_of(client)
    stranger = Driver(client, driver.group_id, driver.topic, unique("session"), epoch=7)
    assert (await rejection(stranger.plan(10))).code is ErrorCode.UNKNOWN_MEMBER_ID


async def test_planned_records_can_be_read_repeatedly(client: Client) -> None:
    driver = await driver_of(client)
    (planned,) = await driver.plan(10)
    assert await driver.read(planned) == await driver.read(planned) == list(map(str, range(10)))
    await driver.commit([planned])
    assert await driver.read((0, 3, 5)) == ["3", "4", "5"]
    assert await driver.read((0, 18, 1000), committed=True) == ["18", "19"]


async def test_long_ranges_are_read_in_several_calls(client: Client) -> None:
    driver = await driver_of(client, records=0)
    for number in range(4):
        await client.publish(driver.topic, [str(number) + "x" * 1000])
    request = pb.ReadRangeRequest(range=driver.range(0, 1, 3), max_bytes=2200)
    response = await client.plans.ReadRange(request, timeout=TIMEOUT)
    assert [offset for offset, _ in texts(response.record_batches)] == [1, 2]
    assert response.next_offset == 3
    assert [text[0] for text in await driver.read((0, 1, 3))] == ["1", "2", "3"]


async def test_a_plan_waits_for_records(client: Client) -> None:
    driver = await driver_of(client)
    planned = await driver.plan()
    assert count(planned) == RECORDS
    await driver.commit(planned)
    waiting = driver.plan(wait=TIMEOUT / 2)
    await client.publish(driver.topic, ["late"])
    assert await waiting == [(0, RECORDS, RECORDS)]


async def test_commit_for_a_deleted_topic_finishes_everything(client: Client) -> None:
    driver = await driver_of(client)
    planned = await driver.plan(5)
    await client.delete(driver.topic)
    await driver.commit(planned)
    assert driver.left == [(0, 0, 4, "finished")]
    assert (await rejection(driver.plan())).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_invalid_plan_requests_are_rejected(client: Client) -> None:
    driver = await driver_of(client)
    bad: dict[str, Awaitable[Any]] = {
        "max_records": driver.plan(0),
        "max_wait_ms": driver.plan(wait=61.0),
        "commit": driver.plan(commit=[(0, 0, 4), (0, 4, 5)]),
        "commit[0]": driver.plan(commit=[(0, 5, 4)]),
        "commit[0].type": driver.plan(commit=[(0, 5, 6)], kind=5),
        "verdicts[0].type": driver.stage([(0, 0, 1)], 5),
        "batch": driver.stage([(0, 0, 1)], REJECT, batch="x" * 65),
        "accepted[0]": client.plans.Commit(
            pb.CommitRequest(session=driver.key, accepted=[pb.PlanColumns(partitions=[0])]), timeout=TIMEOUT
        ),
        "columns[0]": client.plans.Renew(
            pb.RenewRequest(
                session=driver.key, topics=[driver.topic], columns=[pb.PlanColumns(last_offsets=[0])]
            ),
            timeout=TIMEOUT,
        ),
        "ranges[0]": driver.renew([(-1, 0, 1)]),
        "range": client.plans.ReadRange(pb.ReadRangeRequest(range=driver.range(0, 3, 2)), timeout=TIMEOUT),
        "range.partition": driver.read((7, 0, 2)),
    }
    error = dict(zip(bad, await asyncio.gather(*map(rejection, bad.values())), strict=True))
    assert {name: (one.code, one.fields) for name, one in error.items()} == {
        name: (ErrorCode.INVALID_REQUEST, (name,)) for name in bad
    }
    assert "cannot be renewed" in (await rejection(driver.commit([(0, 0, 1)], RENEW))).text
    nameless = pb.OpenSessionRequest(group_id=driver.group_id)
    assert (await rejection(client.plans.OpenSession(nameless, timeout=TIMEOUT))).fields == ("session_id",)


@pytest.mark.parametrize("topics", [[], ["twice", "twice"]])
async def test_each_topic_is_named_once(client: Client, topics: list[str]) -> None:
    driver = await driver_of(client)
    request = pb.PlanRequest(
        session=driver.key, topics=[pb.PlanRequest.Topic(name=name) for name in topics], max_records=1
    )
    assert (await rejection(client.plans.Plan(request, timeout=TIMEOUT))).fields == ("topics",)


async def test_concurrent_commits_succeed_and_a_later_one_finishes_nothing(client: Client) -> None:
    driver = await driver_of(client)
    planned = await driver.plan()
    request = pb.CommitRequest(session=driver.key, commit=driver.verdicts(planned, ACCEPT))
    responses = await asyncio.gather(*(client.plans.Commit(request, timeout=TIMEOUT) for _ in range(4)))
    assert any(not one.left for one in responses)
    later = await client.plans.Commit(request, timeout=TIMEOUT)
    assert (len(later.left), later.repeated) == (len(planned), False)
