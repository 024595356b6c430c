"""Share state at the share coordinator: failures, timeouts and retries of its changes."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.model import SharePartitionKey
from sharebroker_server.coordinator_runtime.shard import ShardRuntime
from sharebroker_server.group_coordinator.core.share_groups.commands import StateInitialized
from sharebroker_server.group_coordinator.service import share_states
from tests.scenarios.group_coordinator.harness import CONTEXT, Broker, Cluster, code
from tests.testkit.waiting import eventually


def parts(response: pb.ShareGroupHeartbeatResponse) -> dict[str, list[int]]:
    return {some.topic_id: list(some.partitions) for some in response.assignment.topic_partitions}


async def holds(broker: Broker, epoch: int, expected: dict[str, list[int]]) -> bool:
    """Returns whether a member of this epoch or a later one has these partitions."""
    await broker.beat("m", epoch)
    (member,) = (await described(broker)).members
    return {some.topic_id: list(some.partitions) for some in member.assignment.topic_partitions} == expected


async def offsets(broker: Broker, group: str = "g") -> list[pb.DescribeShareGroupOffsetsResponse.Topic]:
    request = pb.DescribeShareGroupOffsetsRequest()
    request.groups.add(group_id=group, all_topics=True)
    response = await broker.until(lambda: broker.groups.DescribeShareGroupOffsets(request, CONTEXT))
    (described,) = response.groups
    assert not described.error_code
    return list(described.topics)


async def described(broker: Broker, group: str = "g") -> pb.ShareGroupDescribeResponse.DescribedGroup:
    request = pb.ShareGroupDescribeRequest(group_ids=[group])
    (found,) = (await broker.groups.ShareGroupDescribe(request, CONTEXT)).groups
    return found


async def alter(broker: Broker, *offsets: tuple[str, int, int]) -> pb.AlterShareGroupOffsetsResponse:
    request = pb.AlterShareGroupOffsetsRequest(group_id="g")
    for name, partition, offset in offsets:
        request.topics.add(topic_name=name).partitions.add(partition=partition, start_offset=offset)
    return await broker.until(lambda: broker.groups.AlterShareGroupOffsets(request, CONTEXT))


async def delete_groups(broker: Broker, *groups: str) -> list[int]:
    response = await broker.groups.DeleteGroups(pb.DeleteGroupsRequest(group_ids=groups), CONTEXT)
    return [result.error_code for result in response.results]


async def test_failed_initialisation_is_repeated_with_the_next_heartbeat(
    cluster: Cluster, broker: Broker
) -> None:
    topic_id = await broker.create("a", 2)
    cluster.states.refuse[SharePartitionKey("g", topic_id, 1)] = KafkaError(
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    with capture_logs() as logs:
        response = await broker.beat("m", 0, "a")
    assert parts(response) == {topic_id: [0]}
    assert "share state not initialised" in [entry["event"] for entry in logs]
    cluster.states.refuse.clear()
    # An earlier attempt may have to fail first.
    await eventually(lambda: holds(broker, response.member_epoch, {topic_id: [0, 1]}))


async def test_initialisation_that_takes_too_long_counts_as_failed(cluster: Cluster) -> None:
    broker = await cluster.start(1, state_timeout=0.01)
    await broker.create("a", 1)
    cluster.states.open.clear()
    response = await broker.beat("m", 0, "a")
    assert parts(response) == {}
    cluster.states.open.set()
    assert parts(await broker.beat("m", response.member_epoch))


async def test_failure_of_an_alter_at_the_share_coordinator_is_returned(
    cluster: Cluster, broker: Broker
) -> None:
    topic_id = await broker.create("a", 1)
    cluster.states.refuse[SharePartitionKey("g", topic_id, 0)] = KafkaError(
        ErrorCode.FENCED_STATE_EPOCH, "stale"
    )
    (topic,) = (await alter(broker, ("a", 0, 40))).responses
    assert [(code(some), some.error_message) for some in topic.partitions] == [
        (ErrorCode.FENCED_STATE_EPOCH, "stale")
    ]
    cluster.states.refuse.clear()
    (topic,) = (await alter(broker, ("a", 0, 41))).responses
    assert not topic.partitions[0].error_code


async def test_failure_of_a_deletion_at_the_share_coordinator_is_returned(
    cluster: Cluster, broker: Broker
) -> None:
    topic_id = await broker.create("a", 2)
    await broker.beat("m", 0, "a")
    await broker.beat("m", -1)
    cluster.states.refuse[SharePartitionKey("g", topic_id, 1)] = KafkaError(
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    request = pb.DeleteShareGroupOffsetsRequest(group_id="g", topic_names=["a"])
    (rejected,) = (await broker.groups.DeleteShareGroupOffsets(request, CONTEXT)).responses
    assert code(rejected) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    cluster.states.refuse.clear()
    (done,) = (await broker.groups.DeleteShareGroupOffsets(request, CONTEXT)).responses
    assert not done.error_code
    assert cluster.states.states == {}


async def test_group_is_kept_when_its_state_could_not_be_deleted(cluster: Cluster, broker: Broker) -> None:
    topic_id = await broker.create("a", 1)
    await broker.beat("m", 0, "a")
    await broker.beat("m", -1)
    cluster.states.refuse[SharePartitionKey("g", topic_id, 0)] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    assert await delete_groups(broker, "g") == [ErrorCode.KAFKA_STORAGE_ERROR]
    cluster.states.refuse.clear()
    assert await delete_groups(broker, "g") == [0]


async def test_unrecorded_initialisation_is_repeated_by_the_next_owner(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_states, "_REPEATS", (0.01, 0.01))
    first = await cluster.start(1, initialize_wait=0.01)
    topic_id = await first.create("a", 1)
    cluster.states.open.clear()
    epoch = (await first.beat("m", 0, "a")).member_epoch
    await first.host.stop()
    with capture_logs() as logs:
        cluster.states.open.set()
        await eventually(lambda: "initialised share state not recorded" in [entry["event"] for entry in logs])
    second = await cluster.start(2)
    await first.stop()
    assert parts(await second.beat("m", epoch)) == {topic_id: [0]}
    assert cluster.states.states[SharePartitionKey("g", topic_id, 0)].state_epoch == 3


async def test_initialisation_is_retried_while_the_lease_renewal_is_late(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the group waits for its retry interval (simulation: seed 622935070)."""
    broker = await cluster.start(1, initialize_wait=0.01)
    submit, reported = ShardRuntime.submit, list[bool]()

    def late_once(self: ShardRuntime[Any, Any, Any], command: Any) -> Any:
        if isinstance(command, StateInitialized):
            reported.append(bool(reported))
            if not reported[-1]:
                raise KafkaError(ErrorCode.NOT_COORDINATOR, "The lease may have expired.")
        return submit(self, command)

    monkeypatch.setattr(ShardRuntime, "submit", late_once)
    monkeypatch.setattr(share_states, "_REPEATS", (0.01,))
    topic_id = await broker.create("a", 1)
    cluster.states.open.clear()
    epoch = (await broker.beat("m", 0, "a")).member_epoch
    cluster.states.open.set()
    await eventually(lambda: reported == [False, True])
    assert parts(await broker.beat("m", epoch)) == {topic_id: [0]}
