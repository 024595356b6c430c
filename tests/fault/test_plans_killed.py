"""The process is killed between a plan and its commit: the batch is committed, or another session owns it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.client import REJECT, RELEASE, Client, connected
from tests.support.planned import Driver
from tests.testkit.brokers import Cluster, one_process

pytestmark = pytest.mark.xdist_group("fault-killed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with one_process() as cluster:
        yield cluster


async def restart(cluster: Cluster) -> None:
    (process,) = cluster.processes
    await asyncio.to_thread(process.kill)
    await asyncio.to_thread(process.start)


async def planned(client: Client) -> tuple[Driver, str]:
    topic, topic_id = await client.create()
    await client.publish(topic, map(str, range(20)))
    return await Driver(client, await client.group(), topic).open(), topic_id


async def test_available_planned_records_are_committed_and_not_redelivered(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        driver, topic_id = await planned(client)
        batch = await driver.plan(10)
        await restart(cluster)
        await driver.commit(batch)
        assert driver.left == []
        assert await client.finished(driver.group_id, topic_id) == set(range(10))
        others = await client.acquire_all(driver.group_id, driver.topic, 10, "other")
        assert [record.offset for record in others] == list(range(10, 20))


async def test_records_acquired_by_another_member_stay_with_it(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        driver, topic_id = await planned(client)
        batch = await driver.plan(10)
        await restart(cluster)
        others = (await client.acquire_all(driver.group_id, driver.topic, 4, "other"))[:4]
        await driver.commit(batch)
        assert driver.left == [(0, 0, 3, "taken")]
        assert await client.acknowledge(driver.group_id, "other", others) == [0] * 4
        assert await client.finished(driver.group_id, topic_id) == set(range(10))


async def test_planned_batch_in_progress_is_reacquired(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        driver, _ = await planned(client)
        batch = await driver.plan(10)
        await restart(cluster)
        assert await driver.renew(batch) > 0
        others = await client.acquire_all(driver.group_id, driver.topic, 10, "other")
        assert [record.offset for record in others] == list(range(10, 20))
        assert await driver.plan(10) == batch


async def test_staged_verdicts_survive_the_death_of_their_broker(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        driver, topic_id = await planned(client)
        batch = await driver.plan(10)
        await driver.stage([(0, 0, 4)], REJECT)
        await driver.stage([(0, 9, 9)], RELEASE)
        await restart(cluster)
        assert await client.finished(driver.group_id, topic_id) == set()
        await driver.commit(batch, batch="1")
        assert await client.finished(driver.group_id, topic_id) == set(range(9))
        await restart(cluster)
        await driver.commit(batch, batch="1")
        assert await client.finished(driver.group_id, topic_id) == set(range(9))


async def test_a_fenced_driver_stays_fenced(cluster: Cluster) -> None:
    async with connected(cluster.address) as client:
        driver, _ = await planned(client)
        newer = await driver.another().open()
        await restart(cluster)
        with pytest.raises(Exception, match="newer driver"):
            await driver.plan(10)
        assert await newer.plan(10) == [(0, 0, 9)]
