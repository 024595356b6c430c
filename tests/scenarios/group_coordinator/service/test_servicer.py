"""The RPCs of the group coordinator: descriptions of groups, and its end."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from tests.scenarios.group_coordinator.harness import CONTEXT, Broker, Cluster, code


async def described(broker: Broker, group: str = "g") -> pb.ShareGroupDescribeResponse.DescribedGroup:
    request = pb.ShareGroupDescribeRequest(group_ids=[group])
    (found,) = (await broker.groups.ShareGroupDescribe(request, CONTEXT)).groups
    return found


async def test_describe_names_topics_and_leaves_out_deleted_ones(broker: Broker) -> None:
    a = await broker.create("a", 1)
    b = await broker.create("b", 1)
    epoch = (await broker.beat("m", 0, "a", "b")).member_epoch
    group = await described(broker)
    assert (group.group_state, group.assignor_name, group.group_epoch, group.assignment_epoch) == (
        "Stable",
        "simple",
        epoch,
        epoch,
    )
    assert group.authorized_operations == -(1 << 31)
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host, list(member.subscribed_topic_names)) == (
        "m",
        "c",
        "h",
        ["a", "b"],
    )
    assert not member.HasField("rack_id")
    named = {some.topic_name: some.topic_id for some in member.assignment.topic_partitions}
    assert named == {"a": a, "b": b}
    await broker.delete("a")
    (member,) = (await described(broker)).members
    assert [some.topic_name for some in member.assignment.topic_partitions] == ["b"]


async def test_describe_of_an_unknown_group(broker: Broker) -> None:
    await broker.create("a", 1)
    await broker.beat("m", 0, "a", group="x")
    group = await described(broker, "x")
    assert group.error_code == 0
    missing = await broker.until(lambda: described_now(broker, "g"))
    assert (code(missing), missing.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "")
    nameless = await broker.until(lambda: described_now(broker, ""))
    assert (code(nameless), nameless.group_state) == (ErrorCode.INVALID_GROUP_ID, "")


async def described_now(broker: Broker, group: str) -> pb.ShareGroupDescribeResponse.DescribedGroup:
    found = await described(broker, group)
    if code(found) in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
        raise KafkaError(code(found))
    return found


async def test_close_cancels_background_work(cluster: Cluster) -> None:
    broker = await cluster.start(1, initialize_wait=0.01)
    await broker.create("a", 1)
    cluster.states.open.clear()
    await broker.beat("m", 0, "a")
    await broker.groups.close()
    await broker.stop()
    assert cluster.states.states == {}
