"""Streams and long polls end when their caller loses a permission."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import produce_pb2
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.rpc_status import from_rpc_error
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.records import TopicRecord
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.produce.requests import produced
from tests.unit.gateway.share.requests import acknowledge, answered, fetch, records_of, refused

SECONDS = 10.0


@pytest.fixture
def table(harness: Harness) -> TableAuthorizer:
    table = harness.gateway.authorizer = TableAuthorizer()
    return table


async def code_of(call: Any) -> ErrorCode:
    """Returns the error with which a call ends."""
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await _to_its_end(call)
    return from_rpc_error(failure.value).code


async def _to_its_end(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


def subscription(**fields: Any) -> pb.ConsumeRequest:
    return pb.ConsumeRequest(subscribe=pb.ConsumeRequest.Subscribe(group_id="g", **fields), credit=10)


async def consuming(harness: Harness, *requests: pb.ConsumeRequest) -> Any:
    call = harness.share.Consume(timeout=SECONDS)
    for request in requests:
        await call.write(request)
    await eventually(lambda: harness.leader.streams)
    return call


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (AclResourceType.GROUP, "g", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (AclResourceType.TOPIC, "flights", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
@pytest.mark.parametrize("own_assignment", [False, True])
async def test_a_stream_ends_when_its_permission_is_revoked(
    harness: Harness,
    table: TableAuthorizer,
    kind: AclResourceType,
    name: str,
    code: ErrorCode,
    own_assignment: bool,
) -> None:
    if own_assignment:
        part = delivery.TopicPartition(topic_id=TOPIC.topic_id, partition=0)
        assignment = pb.ConsumeRequest(assignment=pb.ConsumeRequest.Assignment(partitions=[part]))
        call = await consuming(harness, subscription(member_id="m"), assignment)
    else:
        call = await consuming(harness, subscription(topics=["flights"]))
    harness.gateway.rechecks.repeat()
    table.deny(AclOperation.READ, kind, "another")
    harness.gateway.rechecks.repeat()
    assert not harness.leader.streams[0].closed
    table.deny(AclOperation.READ, kind, name)
    harness.gateway.rechecks.repeat()
    assert await code_of(call) is code
    await eventually(lambda: harness.leader.streams[0].closed)


async def test_an_assignment_of_a_denied_topic_ends_the_stream(
    harness: Harness, table: TableAuthorizer
) -> None:
    table.deny(AclOperation.READ, AclResourceType.TOPIC)
    call = harness.share.Consume(timeout=SECONDS)
    part = delivery.TopicPartition(topic_id=TOPIC.topic_id, partition=0)
    await call.write(subscription(member_id="m"))
    await call.write(pb.ConsumeRequest(assignment=pb.ConsumeRequest.Assignment(partitions=[part])))
    assert await code_of(call) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not harness.leader.streams


async def test_a_long_poll_ends_when_its_permission_is_revoked(
    harness: Harness, table: TableAuthorizer
) -> None:
    async def wait(_: Any, context: Any) -> Any:
        harness.leader.comes.set()
        await asyncio.Event().wait()

    harness.leader.AcquireRecords = wait  # type: ignore[method-assign,assignment]
    request = pb.AcquireRequest(group_id="g", topics=["flights"], max_wait_ms=5_000)
    call = harness.share.Acquire(request, timeout=SECONDS)
    waiting = asyncio.ensure_future(call)
    await asyncio.wait_for(harness.leader.comes.wait(), SECONDS)
    table.deny(AclOperation.READ, AclResourceType.TOPIC, "flights")
    harness.gateway.rechecks.repeat()
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await waiting
    assert from_rpc_error(failure.value).code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_a_produce_stream_ends_when_a_topic_it_wrote_is_revoked(
    harness: Harness, table: TableAuthorizer
) -> None:
    call = harness.produce.ProduceStream(timeout=SECONDS)
    await call.write(produce_pb2.ProduceStreamRequest(id=1, produce=produced(0, name="flights")))
    assert (await call.read()).id == 1
    table.deny(AclOperation.WRITE, AclResourceType.TOPIC, "another")
    harness.gateway.rechecks.repeat()
    await call.write(produce_pb2.ProduceStreamRequest(id=2, produce=produced(0, name="flights")))
    assert (await call.read()).id == 2
    table.deny(AclOperation.WRITE, AclResourceType.TOPIC, "flights")
    harness.gateway.rechecks.repeat()
    assert await code_of(call) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_acknowledgements_of_denied_topics_are_refused_one_by_one(
    harness: Harness, table: TableAuthorizer
) -> None:
    table.deny(AclOperation.READ, AclResourceType.TOPIC, "secret")
    decision = pb.AcknowledgeRequest.Decision
    some = [decision(topic=name, offset=5, type=1) for name in ("secret", "flights")]  # type: ignore[arg-type]
    request = pb.AcknowledgeRequest(group_id="g", member_id="m", acknowledgements=some)
    denied, done = (await harness.share.Acknowledge(request)).results
    assert (denied.topic, denied.offset) == ("secret", 5)
    assert denied.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert done.error_code == 0
    assert len(harness.leader.of(leader.AcknowledgeRecordsRequest)) == 1


@pytest.mark.parametrize("rpc", ["ShareFetch", "ShareAcknowledge"])
async def test_requests_of_share_sessions_need_read_of_the_group(
    harness: Harness, table: TableAuthorizer, rpc: str
) -> None:
    table.deny(AclOperation.READ, AclResourceType.GROUP)
    error = await refused(getattr(harness.share, rpc)(getattr(pb, f"{rpc}Request")(group_id="group")))
    assert error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_partitions_of_a_share_session_are_denied_one_by_one(
    harness: Harness, table: TableAuthorizer
) -> None:
    secret = Topic("C" * 21 + "A", "seats", 1)
    harness.gateway.catalog.catalog.apply(TopicRecord(secret), 2)
    harness.leader.answer = records_of(0)
    table.deny(AclOperation.READ, AclResourceType.TOPIC, "seats")
    request = fetch(0, 0)
    request.topics.add(topic_id=secret.topic_id).partitions.add(partition_index=0)
    read, denied = (await harness.share.ShareFetch(request)).responses
    assert (read.topic_id, read.partitions[0].error_code) == (TOPIC.topic_id, 0)
    assert read.partitions[0].acquired_records
    assert denied.partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not denied.partitions[0].acquired_records

    table.deny(AclOperation.READ, AclResourceType.TOPIC, "flights")
    denied = answered(await harness.share.ShareAcknowledge(acknowledge(1, {0: [(0, 9, [1])]})))
    assert denied[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not harness.leader.of(leader.AcknowledgeRecordsRequest)
    denied = answered(await harness.share.ShareFetch(fetch(2, 0, acks={0: [(0, 9, [1])]})))
    assert denied[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert denied[0].acknowledge_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not harness.leader.of(leader.AcknowledgeRecordsRequest)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (AclResourceType.GROUP, "group", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (AclResourceType.TOPIC, "flights", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
async def test_a_waiting_fetch_of_a_session_ends_when_its_permission_is_revoked(
    harness: Harness, table: TableAuthorizer, kind: AclResourceType, name: str, code: ErrorCode
) -> None:
    async def wait(_: Any, context: Any) -> Any:
        harness.leader.comes.set()
        await asyncio.Event().wait()

    harness.leader.AcquireRecords = wait  # type: ignore[method-assign,assignment]
    call = harness.share.ShareFetch(fetch(0, 0, max_wait_ms=5_000), timeout=SECONDS)
    waiting = asyncio.ensure_future(call)
    await asyncio.wait_for(harness.leader.comes.wait(), SECONDS)
    table.deny(AclOperation.READ, kind, "another")
    harness.gateway.rechecks.repeat()
    table.deny(AclOperation.READ, kind, name)
    harness.gateway.rechecks.repeat()
    if kind is AclResourceType.GROUP:
        assert (await refused(waiting)).code is code
    else:
        assert answered(await waiting)[0].error_code == code
