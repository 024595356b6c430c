"""Idle share consumers: each sends heartbeats and waits for records as Java's client does.

Arguments: bootstrap server, topic, members, seconds, ids of the server's processes. Writes the CPU of these
processes as JSON in a line, in percent of a core.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any, Final
from uuid import uuid4

import uvloop

from tests.perf.procfs import usage
from tests.support.kafka_client import KafkaClient, connected, part

GROUP_SIZE: Final = 100
JOINING: Final = 50
"""Number of members that join at the same time."""

HEARTBEAT_SECONDS: Final = 5.0
PAUSE: Final = 0.2
NO_COORDINATOR_YET: Final = (14, 15, 16)


class Member:
    """A share consumer with one connection for its group and one for its records."""

    def __init__(self, group_id: str, coordinator: KafkaClient, leader: KafkaClient) -> None:
        self._group_id = group_id
        self._id = str(uuid4())
        self._coordinator = coordinator
        self._leader = leader
        self._epoch = 0

    async def join(self, topic: str) -> None:
        """Joins the group as soon as it has a coordinator."""
        while not await self._heartbeat(subscribed_topic_names=[topic], rack_id=None):
            await self._coordinator.ask(10, 4, key_type=0, coordinator_keys=[self._group_id])
            await asyncio.sleep(PAUSE)

    async def stay(self) -> None:
        """Sends heartbeats until cancelled."""
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await self._heartbeat()

    async def wait(self, topic_id: str) -> None:
        """Sends one fetch after the other for partition 0, each with the wait of Java's client."""
        epoch = 0
        while True:
            wanted = {} if epoch else {topic_id: [0]}
            response = await self._leader.share_fetch(self._group_id, self._id, epoch, wanted)
            if response.error_code:
                raise SystemExit(f"ShareFetch: error {response.error_code}")
            epoch += 1

    async def _heartbeat(self, **fields: Any) -> bool:
        response = await self._coordinator.heartbeat(self._group_id, self._id, self._epoch, **fields)
        if response.error_code in NO_COORDINATOR_YET:
            return False
        if response.error_code:
            raise SystemExit(f"ShareGroupHeartbeat: error {response.error_code} {response.error_message}")
        self._epoch = response.member_epoch
        return True


async def measure(bootstrap: str, topic: str, members: int, seconds: float, pids: list[int]) -> float:
    """Returns the CPU of the processes while the members wait, in percent of a core."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(connected(bootstrap))
        topic_id = await _topic_id(first, topic)
        tasks: list[asyncio.Task[None]] = []
        joining = asyncio.Semaphore(JOINING)

        async def begin(number: int) -> None:
            async with joining:
                coordinator = await stack.enter_async_context(connected(bootstrap))
                leader = await stack.enter_async_context(connected(bootstrap))
                member = Member(f"idle-{number // GROUP_SIZE}", coordinator, leader)
                await member.join(topic)
            tasks.extend(asyncio.create_task(wait) for wait in (member.stay(), member.wait(topic_id)))

        await asyncio.gather(*(begin(number) for number in range(members)))
        await asyncio.sleep(HEARTBEAT_SECONDS)
        before = usage(pids).cpu
        await asyncio.sleep(seconds)
        used = usage(pids).cpu - before
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(outcome, asyncio.CancelledError):
                raise SystemExit(f"a member failed: {outcome!r}")
    return used / seconds * 100


async def _topic_id(client: KafkaClient, topic: str) -> str:
    (found,) = (await client.ask(3, 12, topics=[part(3, "MetadataRequestTopic", name=topic)])).topics
    return str(found.topic_id)


if __name__ == "__main__":
    bootstrap, topic, members, seconds, *pids = sys.argv[1:]
    used = uvloop.run(measure(bootstrap, topic, int(members), float(seconds), [int(pid) for pid in pids]))
    sys.stdout.write(json.dumps({"cpu": used}) + "\n")
