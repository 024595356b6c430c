"""RPCs of ProduceService."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import produce_pb2
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.grpc.produce import MAX_REMEMBERED_TOPICS
from sharebroker_server.security.acl import AclOperation, AclResourceType
from tests.testkit.authorizer import TableAuthorizer
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.produce.requests import appending, produced, records, refused


async def test_published_records_are_appended(harness: Harness) -> None:
    harness.leader.answer = appending
    request = produce_pb2.PublishRequest(topic="flights", records=records((b"key", "text")))
    response = await harness.produce.Publish(request)
    assert [position.offset for position in response.positions] == [100]
    assert len(harness.leader.of(leader.ProduceRequest)) == 1


async def test_produced_batches_are_appended_unchanged(harness: Harness) -> None:
    harness.leader.answer = appending
    response = await harness.produce.Produce(produced(1, b"batch", name="flights"))
    (appended,) = harness.leader.of(leader.ProduceRequest)
    assert [(part.partition, part.record_batches) for part in appended.partitions] == [(1, b"batch")]
    (topic,) = response.responses
    assert [(part.index, part.base_offset) for part in topic.partition_responses] == [(1, 100)]


async def test_stream_responds_with_the_id_of_each_request(harness: Harness) -> None:
    harness.leader.answer = appending
    call = harness.produce.ProduceStream()
    await call.write(produce_pb2.ProduceStreamRequest(id=7, produce=produced(0, name="flights")))
    await call.done_writing()
    assert [response.id async for response in call] == [7]


async def test_invalid_topic_is_rejected(harness: Harness) -> None:
    request = produce_pb2.PublishRequest(topic="no/name", records=records((None, "text")))
    assert (await refused(harness.produce.Publish(request))).code is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_stream_checks_the_permission_on_a_topic_after_each_change(harness: Harness) -> None:
    harness.leader.answer = appending
    table = harness.gateway.authorizer = TableAuthorizer()
    call = harness.produce.ProduceStream(timeout=30.0)

    async def produce() -> int:
        await call.write(produce_pb2.ProduceStreamRequest(produce=produced(0, name="flights")))
        ((part,),) = (topic.partition_responses for topic in (await call.read()).produce.responses)
        return int(part.error_code)

    written = (AclOperation.WRITE, AclResourceType.TOPIC, "flights")
    assert [await produce() for _ in range(2)] == [0, 0]
    assert table.checked == [written]
    table.deny(*written)
    assert [await produce() for _ in range(2)] == [int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)] * 2
    table.allow_all()
    assert await produce() == 0
    call.cancel()


@pytest.mark.slow
async def test_a_stream_remembers_a_limited_number_of_topics(harness: Harness) -> None:
    table = harness.gateway.authorizer = TableAuthorizer()
    call = harness.produce.ProduceStream(timeout=30.0)
    for number in range(MAX_REMEMBERED_TOPICS + 10):
        await call.write(produce_pb2.ProduceStreamRequest(id=number, produce=produced(0, name=f"t{number}")))
        assert (await call.read()).id == number
    table.allow_all()
    table.checked.clear()
    harness.gateway.rechecks.repeat()
    last = range(10, MAX_REMEMBERED_TOPICS + 10)
    assert table.checked == [(AclOperation.WRITE, AclResourceType.TOPIC, f"t{number}") for number in last]
    call.cancel()
