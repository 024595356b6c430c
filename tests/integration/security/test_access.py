"""Internal RPCs of real brokers: outsiders are denied, and damage no group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2_grpc import ShareCoordinatorServiceStub
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
    SharePartitionLeaderServiceStub,
)
from tests.support.client import ACCEPT, TIMEOUT, Client, connected, rejection, unique
from tests.testkit.brokers import Cluster
from tests.testkit.cluster_tokens import internal_channel, stored_secret
from tests.testkit.waiting import eventually

READ = pb.ReadShareGroupStateRequest
WRITE = pb.WriteShareGroupStateRequest
HIGHEST_EPOCH = 2**31 - 1
RECORDS = 200


@pytest.fixture
async def client(server: str) -> AsyncIterator[Client]:
    async with connected(server) as made:
        yield made


async def address_of(client: Client, role: str) -> str:
    """Returns the address of the one broker that has a role."""
    nodes = (await client.admin.Metadata(admin.MetadataRequest(), timeout=TIMEOUT)).nodes
    [address] = [node.address for node in nodes if role in node.roles]
    return address


def read(group_id: str, topic_id: str) -> pb.ReadShareGroupStateRequest:
    """A read that would raise the leader epoch above that of every later leader."""
    part = READ.PartitionData(partition=0, leader_epoch=HIGHEST_EPOCH)
    return READ(group_id=group_id, topics=[READ.TopicData(topic_id=topic_id, partitions=[part])])


def write(group_id: str, topic_id: str) -> pb.WriteShareGroupStateRequest:
    """A write that would skip records which are published later."""
    part = WRITE.PartitionData(
        partition=0, state_epoch=HIGHEST_EPOCH, leader_epoch=HIGHEST_EPOCH, start_offset=RECORDS // 2
    )
    return WRITE(group_id=group_id, topics=[WRITE.TopicData(topic_id=topic_id, partitions=[part])])


Attack = Callable[[Any, str, str], Awaitable[Any]]
ATTACKS: dict[str, Attack] = {
    "read": lambda stub, group, topic: stub.ReadShareGroupState(read(group, topic), timeout=TIMEOUT),
    "write": lambda stub, group, topic: stub.WriteShareGroupState(write(group, topic), timeout=TIMEOUT),
}
SECRETS = {"without a token": None, "with a token of another cluster": b"the secret of another cluster"}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_an_outsider_is_denied_and_the_group_gets_all_records(
    client: Client, attack: Attack, secret: bytes | None
) -> None:
    topic, topic_id = await client.create()
    group_id, member = await client.group(), unique("member")
    await client.heartbeat(group_id, member, 0, [topic])
    await eventually(lambda: is_initialised(client, group_id, topic_id))
    address = await address_of(client, "share-coordinator")
    async with internal_channel(address, secret) as channel:
        stub = ShareCoordinatorServiceStub(channel)
        error = await rejection(attack(stub, group_id, topic_id))
    assert error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    await client.publish(topic, map(str, range(RECORDS)))
    got = await client.acquire_all(group_id, topic, RECORDS, member)
    assert [record.text for record in got] == [str(number) for number in range(RECORDS)]
    assert set(await client.acknowledge(group_id, member, got, ACCEPT)) == {ErrorCode.NONE}


async def is_initialised(client: Client, group_id: str, topic_id: str) -> bool:
    """Returns whether the share-partition has state; no leader has loaded it before the first fetch."""
    return (await client.inspect(group_id, topic_id)).HasField("folded")


async def test_no_process_raises_the_leader_epoch_above_the_lease(client: Client, cluster: Cluster) -> None:
    topic, topic_id = await client.create()
    group_id, member = await client.group(), unique("member")
    await client.publish(topic, ["0"])
    got = await client.acquire_all(group_id, topic, 1, member)
    address = await address_of(client, "share-coordinator")
    async with internal_channel(address, stored_secret(cluster.redis_url)) as channel:
        answer = await ShareCoordinatorServiceStub(channel).ReadShareGroupState(read(group_id, topic_id))
    [part] = answer.results[0].partitions
    assert ErrorCode(part.error_code) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert await client.acknowledge(group_id, member, got, ACCEPT) == [ErrorCode.NONE]


async def test_a_process_of_the_cluster_may_read_state(client: Client, cluster: Cluster) -> None:
    address = await address_of(client, "share-coordinator")
    async with internal_channel(address, stored_secret(cluster.redis_url)) as channel:
        request = pb.ReadShareGroupStateSummaryRequest(group_id="none")
        answer = await ShareCoordinatorServiceStub(channel).ReadShareGroupStateSummary(request)
    assert not answer.results


async def test_a_stream_of_an_outsider_is_denied_before_its_first_message(client: Client) -> None:
    async def endless() -> AsyncIterator[leader.DeliverRequest]:
        await asyncio.Event().wait()
        yield leader.DeliverRequest()

    address = await address_of(client, "share-partition-leader")
    async with grpc.aio.insecure_channel(address) as channel:
        stub = SharePartitionLeaderServiceStub(channel)
        error = await rejection(stub.Deliver(endless(), timeout=TIMEOUT).read())
    assert error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_an_undecodable_request_of_an_outsider_is_not_parsed(client: Client) -> None:
    address = await address_of(client, "share-coordinator")
    async with grpc.aio.insecure_channel(address) as channel:
        raw: Any = channel  # the types contain messages only
        method = "/sharebroker.share_coordinator.v1.ShareCoordinatorService/ReadShareGroupState"
        error = await rejection(raw.unary_unary(method)(b"\xff\xff\xff", timeout=TIMEOUT))
    assert error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_a_method_that_no_service_has_is_unimplemented(client: Client) -> None:
    address = await address_of(client, "share-coordinator")
    async with grpc.aio.insecure_channel(address) as channel:
        raw: Any = channel
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await raw.unary_unary("/sharebroker.unknown.v1.Unknown/Call")(b"", timeout=TIMEOUT)
    assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED
