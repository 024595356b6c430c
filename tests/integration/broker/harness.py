"""A topic with records, a group, and a member that holds some of them: bad requests must not disturb
these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as groups
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from tests.support.client import TIMEOUT, Client, unique

RECORDS = 10
HELD = 4


@dataclass(frozen=True)
class Harness:
    """`member` holds the first HELD of RECORDS records in the one partition of `topic`."""

    client: Client
    topic: str
    topic_id: str
    group_id: str
    member: str
    held: list[share.ShareRecord]

    async def facts(self) -> tuple[object, ...]:
        """Returns everything stored: share state with its log, offsets, the end of the record log."""
        inspected = await self.client.inspect(self.group_id, self.topic_id)
        asked = groups.DescribeShareGroupOffsetsRequest.Group(group_id=self.group_id, all_topics=True)
        request = groups.DescribeShareGroupOffsetsRequest(groups=[asked])
        offsets = await self.client.admin.DescribeShareGroupOffsets(request, timeout=TIMEOUT)
        ends = await self.client.admin.ListOffsets(
            leader.ListOffsetsRequest(
                partitions=[
                    leader.ListOffsetsRequest.Partition(topic_id=self.topic_id, partition=0, timestamp=at)
                    for at in (-1, -2)
                ]
            ),
            timeout=TIMEOUT,
        )
        return str(inspected), str(offsets), str(ends)


@asynccontextmanager
async def undisturbed(client: Client) -> AsyncIterator[Harness]:
    """Provides a harness in which nothing may change; at the end the held records can still be accepted."""
    topic, topic_id = await client.create()
    group_id, member = await client.group(), unique("member")
    await client.publish(topic, map(str, range(RECORDS)))
    held = await client.acquire_all(group_id, topic, HELD, member)
    harness = Harness(client, topic, topic_id, group_id, member, held)
    before = await harness.facts()
    yield harness
    assert await harness.facts() == before
    assert await client.acknowledge(group_id, member, held) == [0] * HELD
    assert await client.finished(group_id, topic_id) == set(range(HELD))
