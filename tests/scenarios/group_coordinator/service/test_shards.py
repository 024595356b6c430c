"""Commands reach the shard of their group, at its present owner."""

from __future__ import annotations

import asyncio
from itertools import count
from time import monotonic

from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from tests.scenarios.group_coordinator.harness import CONTEXT, Broker, Cluster


def parts(response: pb.ShareGroupHeartbeatResponse) -> dict[str, list[int]]:
    return {some.topic_id: list(some.partitions) for some in response.assignment.topic_partitions}


async def test_next_owner_has_members_and_assignments(cluster: Cluster) -> None:
    first = await cluster.start(1)
    topic_id = await first.create("a", 2)
    epoch = (await first.beat("m", 0, "a")).member_epoch
    second = await cluster.start(2)
    await first.stop()
    response = await second.beat("m", epoch)
    assert response.member_epoch == epoch
    assert not response.HasField("assignment")
    assert parts(await second.beat("m", 0, "a")) == {topic_id: [0, 1]}


SESSION = 2.0
SESSIONS = (
    "group.share.min.session.timeout.ms=1",
    f"group.share.session.timeout.ms={SESSION * 1000:.0f}",
    "group.share.min.heartbeat.interval.ms=1",
    "group.share.heartbeat.interval.ms=100",
)


async def test_silent_member_is_fenced_although_owners_change(cluster: Cluster) -> None:
    """Each owner has the shard for a fraction of a session; the other member stays throughout."""
    broker = await cluster.start(1, *SESSIONS)
    topic_id = await broker.create("a", 2)
    joined, owned = monotonic(), list[Broker]()
    await broker.beat("silent", 0, "a")
    epoch = (await broker.beat("works", 0, "a")).member_epoch
    for node in count(2):
        until = monotonic() + SESSION / 5
        while monotonic() < until:
            epoch = (await broker.beat("works", epoch)).member_epoch
            await asyncio.sleep(0.05)
        owned.append(broker)
        if broker.departed or node > 20:
            break
        successor = await cluster.start(node, *SESSIONS)
        await broker.stop()
        broker = successor
    assert [some.departed for some in owned if some.departed] == [[("g", "silent")]]
    assert monotonic() - joined >= SESSION
    assert parts(await broker.beat("works", 0, "a")) == {topic_id: [0, 1]}


async def test_groups_are_listed_over_all_shards(broker: Broker) -> None:
    await broker.create("a", 1)
    for group in ("g1", "g2", "g3"):
        await broker.beat("m", 0, "a", group=group)
    await broker.beat("m", -1, group="g2")

    async def listed(**filters: list[str]) -> dict[str, str]:
        response = await broker.groups.ListGroups(pb.ListGroupsRequest(**filters), CONTEXT)
        assert all((some.group_type, some.protocol_type) == ("share", "share") for some in response.groups)
        return {some.group_id: some.group_state for some in response.groups}

    assert await listed() == {"g1": "Stable", "g2": "Empty", "g3": "Stable"}
    assert await listed(states_filter=["EMPTY"], types_filter=["Share"]) == {"g2": "Empty"}
    assert await listed(types_filter=["Classic"]) == {}
