"""What users cannot do to each other, and what a revoked permission ends, on both listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import grpc
import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as transactions
from tests.integration.security.users import SECONDS, TRANSACTIONS, Users, serving_users
from tests.support.client import ACCEPT, RELEASE, TIMEOUT, Client, rejection, rejection_of, unique
from tests.support.kafka_client import KafkaClient, answered, runs
from tests.support.planned import Driver
from tests.testkit.waiting import eventually

pytestmark = [pytest.mark.servers, pytest.mark.xdist_group("foreign requests")]
TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
TRANSACTION_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
ALL = [(0, 4, [ACCEPT])]


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    with serving_users(tmp_path_factory.mktemp("users")) as made:
        yield made


@pytest.fixture
def work(users: Users) -> tuple[str, str]:
    return users.work()


async def filled(client: Client, topic: str) -> str:
    """Publishes five records; returns the id of the topic."""
    await client.publish(topic, map(str, range(5)))
    metadata = await client.admin.Metadata(admin.MetadataRequest(topics=[topic]), timeout=TIMEOUT)
    return str(metadata.topics[0].topic_id)


async def joined(client: KafkaClient, group: str, member: str, topic: str, topic_id: str) -> None:
    """Joins a share group and waits for the partition."""
    epoch = 0

    async def assigned() -> bool:
        nonlocal epoch
        names = [topic] if epoch == 0 else None
        response = await client.heartbeat(group, member, epoch, subscribed_topic_names=names)
        assert response.error_code == 0, response
        epoch = response.member_epoch
        assignment = response.assignment
        return bool(assignment and [one.topic_id for one in assignment.topic_partitions] == [topic_id])

    await eventually(assigned, SECONDS)


async def to_its_end(stream: Any) -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass


def fetching(group: str, member: str, epoch: int) -> dict[str, Any]:
    """Returns the fields of a ShareFetch that waits for records of its session."""
    sizes = {"max_wait_ms": 5_000, "min_bytes": 1, "max_records": 500, "batch_size": 500}
    return {"group_id": group, "member_id": member, "share_session_epoch": epoch, **sizes}


async def test_a_revoked_permission_ends_a_stream_and_releases_its_records(
    users: Users, work: tuple[str, str]
) -> None:
    topic, group = work
    async with users.calls("alice") as alice, users.calls("mallory") as other:
        await filled(alice, topic)
        subscribe = pb.ConsumeRequest.Subscribe(group_id=group, topics=[topic], decode=True)
        stream = alice.share.Consume(timeout=SECONDS)
        await stream.write(pb.ConsumeRequest(subscribe=subscribe, credit=5))
        held: list[Any] = []
        while len(held) < 5:
            message: Any = await stream.read()
            held += message.records
        users.deny("alice", topic)
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await to_its_end(stream)
        assert rejection_of(failure.value).code is TOPIC_DENIED
        released = await other.acquire_all(group, topic, 5, unique("member"))
    assert sorted(record.offset for record in released) == [0, 1, 2, 3, 4]


async def test_a_revoked_permission_ends_a_share_session_over_kafka(
    users: Users, work: tuple[str, str]
) -> None:
    topic, group = work
    member = str(uuid4())
    async with users.calls("alice") as calls, users.requests("alice") as alice:
        topic_id = await filled(calls, topic)
        await joined(alice, group, member, topic, topic_id)
        first = await alice.share_fetch(group, member, 0, {topic_id: [0]})
        assert runs(answered(first)[topic_id, 0]) == [(0, 4, 1)]
        alice.send(78, 2, **fetching(group, member, 1))
        users.deny("alice", topic)
        with users.publisher() as publisher:
            publisher.publish(topic, b"after the change")
        _, waited = await alice.answer(78, 2)
        assert not [runs(data) for data in answered(waited).values() if runs(data)]
        acks = {(topic_id, 0): ALL}
        denied = answered(await alice.share_acknowledge(group, member, 2, acks))[topic_id, 0]
        assert denied.error_code == TOPIC_DENIED
        await alice.share_fetch(group, member, -1)
    async with users.calls("mallory") as other:
        released = await other.acquire_all(group, topic, 6, unique("member"))
    assert sorted(record.offset for record in released) == [0, 1, 2, 3, 4, 5]


async def test_a_revoked_permission_ends_a_waiting_fetch_over_grpc(
    users: Users, work: tuple[str, str]
) -> None:
    topic, group = work
    async with users.calls("alice") as alice:
        topic_id = await filled(alice, topic)
        await alice.acquire_all(group, topic, 5, "another")
        request = pb.ShareFetchRequest(group_id=group, member_id="m", max_records=10, min_bytes=1)
        request.topics.add(topic_id=topic_id).partitions.add(partition_index=0)
        request.max_wait_ms = 10_000
        waiting = asyncio.ensure_future(alice.share.ShareFetch(request, timeout=SECONDS))
        await asyncio.sleep(0)
        users.deny("alice", topic)
        with users.publisher() as publisher:
            publisher.publish(topic, b"after the change")
        fetched = await waiting
        assert not [part for one in fetched.responses for part in one.partitions if part.acquired_records]


async def test_locks_belong_to_the_principal_over_grpc(users: Users, work: tuple[str, str]) -> None:
    topic, group = work
    async with users.calls("alice") as alice, users.calls("mallory") as mallory:
        await filled(alice, topic)
        held = await alice.acquire_all(group, topic, 5, "m")
        for kind in (ACCEPT, RELEASE):
            stolen = await mallory.acknowledge(group, "m", held, kind)
            assert stolen == [ErrorCode.INVALID_RECORD_STATE] * 5
        await alice.heartbeat(group, "m", 0, [topic])
        for epoch in (0, 1, -1):
            error = await rejection(mallory.heartbeat(group, "m", epoch, [topic] if epoch == 0 else ()))
            assert error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert await alice.acknowledge(group, "m", held) == [ErrorCode.NONE] * 5


async def test_locks_and_sessions_belong_to_the_principal_over_kafka(
    users: Users, work: tuple[str, str]
) -> None:
    topic, group = work
    member = str(uuid4())
    async with (
        users.calls("alice") as calls,
        users.requests("alice") as alice,
        users.requests("mallory") as mallory,
    ):
        topic_id = await filled(calls, topic)
        acks = {(topic_id, 0): ALL}
        await joined(alice, group, member, topic, topic_id)
        first = await alice.share_fetch(group, member, 0, {topic_id: [0]})
        assert runs(answered(first)[topic_id, 0]) == [(0, 4, 1)]
        for epoch in (0, 1, -1):
            names = [topic] if epoch == 0 else None
            left = await mallory.heartbeat(group, member, epoch, subscribed_topic_names=names)
            assert left.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        foreign = await mallory.share_acknowledge(group, member, 1, acks)
        assert foreign.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        own = await mallory.share_fetch(group, member, 0, {topic_id: [0]}, max_wait_ms=0)
        assert own.error_code == 0
        stolen = answered(await mallory.share_acknowledge(group, member, 1, acks))[topic_id, 0]
        assert stolen.error_code == ErrorCode.INVALID_RECORD_STATE
        await mallory.share_fetch(group, member, -1)
        done = await alice.share_acknowledge(group, member, 1, acks)
        assert answered(done)[topic_id, 0].error_code == 0


async def test_a_transaction_is_not_ended_without_the_permission_to_write_its_id(users: Users) -> None:
    name = unique(TRANSACTIONS)
    async with users.calls("alice") as alice, users.calls("mallory") as mallory:
        opening = transactions.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        producer = await alice.produce.InitProducerId(opening, timeout=TIMEOUT)
        ending = transactions.EndTxnRequest(
            transactional_id=name, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
        )
        for call in (
            mallory.produce.InitProducerId(opening, timeout=TIMEOUT),
            mallory.produce.EndTxn(ending, timeout=TIMEOUT),
        ):
            assert (await rejection(call)).code is TRANSACTION_DENIED
    ids = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    async with users.requests("mallory") as attacker:
        fenced = await attacker.ask(22, 4, transactional_id=name, transaction_timeout_ms=60_000, **ids)
        ended = await attacker.ask(26, 4, transactional_id=name, committed=True, **ids)
    assert {fenced.error_code, ended.error_code} == {TRANSACTION_DENIED}


async def test_a_planned_session_belongs_to_the_principal(users: Users, work: tuple[str, str]) -> None:
    topic, group = work
    async with users.calls("alice") as alice, users.calls("mallory") as mallory:
        await filled(alice, topic)
        driver = await Driver(alice, group, topic).open()
        planned = await driver.plan(5)
        assert planned == [(0, 0, 4)]
        stolen = Driver(mallory, group, topic, driver.session, driver.epoch)
        for call in (stolen.plan(5), stolen.commit(planned), stolen.renew(planned), stolen.release()):
            assert (await rejection(call)).code is ErrorCode.UNKNOWN_MEMBER_ID
        await stolen.open()
        await driver.commit(planned)
        assert driver.left == []
