"""Commands reach the shard of their group, at its present owner."""

from __future__ import annotations

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
