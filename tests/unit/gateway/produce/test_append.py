"""Publishing: where records go, what is refused, and streams of batches."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.records.murmur2 import partition_of
from sharebroker_protocol.rpc_status import from_rpc_error
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_protocol.tracing import enabled
from sharebroker_server.catalog.records import Topic, TopicRecord
from sharebroker_server.gateway.config import IN_FLIGHT_BYTES
from sharebroker_server.rpc.partition_errors import wire
from sharebroker_server.testkit.waiting import eventually
from tests.unit.gateway.conftest import Bench
from tests.unit.gateway.fakes import TOPIC, Leader, refusing
from tests.unit.protocol.tracing.test_publishing import Told


def records(*some: tuple[bytes | None, str]) -> list[pb.PublishRecord]:
    return [pb.PublishRecord(key=key, text=text) for key, text in some]


def produced(index: int, data: bytes = b"batch", **topic: str) -> pb.ProduceRequest:
    part = pb.ProduceRequest.PartitionData(index=index, records=data)
    return pb.ProduceRequest(topic_data=[pb.ProduceRequest.TopicData(partition_data=[part], **topic)])


def appending(request: Any) -> Any:
    response = Leader.all_is_well(request)
    for part in response.partitions:
        part.base_offset = 100
    return response


async def refused(call: Any) -> KafkaError:
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await call
    return from_rpc_error(failure.value)


async def test_records_go_where_a_kafka_producer_puts_them(bench: Bench) -> None:
    bench.leader.answer = appending
    keys = [f"N{number}".encode() for number in range(20)]
    request = pb.PublishRequest(topic="flights", records=records(*((key, "x") for key in keys)))
    positions = (await bench.produce.Publish(request)).positions
    assert [position.partition for position in positions] == [partition_of(key, 2) for key in keys]
    for index in (0, 1):  # each partition's records are one run, in the order of the request
        offsets = [position.offset for position in positions if position.partition == index]
        assert offsets == list(range(100, 100 + len(offsets)))


async def test_a_partition_can_be_chosen_and_keyless_records_stay_together(bench: Bench) -> None:
    chosen = pb.PublishRequest(topic="flights", records=[pb.PublishRecord(value=b"x", partition=1)])
    assert (await bench.produce.Publish(chosen)).positions[0].partition == 1
    keyless = pb.PublishRequest(topic="flights", records=records(*[(None, "x")] * 10))
    assert len({position.partition for position in (await bench.produce.Publish(keyless)).positions}) == 1


WRONG = [
    ([], "records", ErrorCode.INVALID_REQUEST),
    ([pb.PublishRecord()] * 10_001, "records", ErrorCode.INVALID_REQUEST),
    (
        [pb.PublishRecord(), pb.PublishRecord(partition=2)],
        "records[1].partition",
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    ([pb.PublishRecord(timestamp_ms=-1)], "records[0].timestamp_ms", ErrorCode.INVALID_RECORD),
    ([pb.PublishRecord(value=bytes(1_048_589))], "records[0]", ErrorCode.MESSAGE_TOO_LARGE),
]


@pytest.mark.parametrize(("some", "field", "code"), WRONG)
async def test_wrong_records(bench: Bench, some: list[pb.PublishRecord], field: str, code: ErrorCode) -> None:
    error = await refused(bench.produce.Publish(pb.PublishRequest(topic="flights", records=some)))
    assert error.code is code
    assert [violation.field for violation in error.violations] == [field]
    assert bench.leader.asked == []


async def test_a_record_whose_publisher_goes_away_is_told_of(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trace goes on where it is appended, below the span that made it."""
    told = Told(1.0)
    monkeypatch.setattr(enabled, "on", told.tracer)
    bench.leader.answer = lambda _: asyncio.Event().wait()
    some = [pb.PublishRecord(value=b"x", partition=index) for index in (0, 1)]
    call = bench.produce.Publish(pb.PublishRequest(topic="flights", records=some))
    waiting = asyncio.ensure_future(refused(call))
    await eventually(lambda: bench.leader.asked)
    waiting.cancel()
    await eventually(lambda: told.spans["create flights"] == 2)
    assert told.spans["send flights"] == 2


async def test_a_failure_says_what_was_published_all_the_same(bench: Bench) -> None:
    def half(request: Any) -> Any:
        response = appending(request)
        for part in response.partitions:
            if part.partition == 1:
                part.error_code = wire(ErrorCode.KAFKA_STORAGE_ERROR)
        return response

    bench.leader.answer = half
    some = [pb.PublishRecord(value=b"x", partition=index) for index in (0, 1, 0)]
    error = await refused(bench.produce.Publish(pb.PublishRequest(topic="flights", records=some)))
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert error.metadata == {"published": "2", "failed_partitions": "1"}


@pytest.mark.parametrize("topic", [{"name": "flights"}, {"topic_id": TOPIC.topic_id}])
async def test_batches_pass_untouched(bench: Bench, topic: dict[str, str]) -> None:
    bench.leader.answer = appending
    (response,) = (await bench.produce.Produce(produced(1, b"\x00\xff", **topic))).responses
    assert (response.name, response.topic_id) == (TOPIC.name, TOPIC.topic_id)
    assert (response.partition_responses[0].index, response.partition_responses[0].base_offset) == (1, 100)
    (asked,) = bench.leader.of(leader.ProduceRequest)
    assert asked.partitions[0].record_batches == b"\x00\xff"


UNKNOWN = [
    (produced(2, name="flights"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (produced(0, topic_id="B" * 22), ErrorCode.UNKNOWN_TOPIC_ID),
    (produced(0, topic_id=TOPIC.topic_id, name="other"), ErrorCode.INCONSISTENT_TOPIC_ID),
    (produced(0, name="no/topic"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (produced(0), ErrorCode.INVALID_TOPIC_EXCEPTION),
]


@pytest.mark.parametrize(("request_", "code"), UNKNOWN)
async def test_where_nothing_can_be_appended(
    bench: Bench, request_: pb.ProduceRequest, code: ErrorCode
) -> None:
    (response,) = (await bench.produce.Produce(request_)).responses
    assert [(part.error_code, part.base_offset) for part in response.partition_responses] == [(code, -1)]
    assert bench.leader.asked == []


async def test_a_batch_follows_its_partition(bench: Bench) -> None:
    bench.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def settle(_: str) -> None:
        bench.leader.answer = appending

    bench.ownership.on_forget = settle
    (response,) = (await bench.produce.Produce(produced(0, name="flights"))).responses
    assert response.partition_responses[0].error_code == 0
    assert len(bench.leader.of(leader.ProduceRequest)) == 2


async def test_a_leader_that_never_comes_is_reported_within_the_timeout(bench: Bench) -> None:
    bench.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    request = produced(0, name="flights")
    request.timeout_ms = 50
    (response,) = (await bench.produce.Produce(request)).responses
    assert response.partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_stream_answers_everything_before_it_ends(bench: Bench) -> None:
    bench.leader.answer = appending
    call = bench.produce.ProduceStream()
    for number in range(50):
        request = produced(number % 2, str(number).encode(), name="flights")
        await call.write(pb.ProduceStreamRequest(id=number, produce=request))
    await call.done_writing()
    answers = [answer async for answer in call]
    assert sorted(answer.id for answer in answers) == list(range(50))
    asked = bench.leader.of(leader.ProduceRequest)
    for index in (0, 1):  # each partition got its batches in the order they were sent
        sent = [int(p.record_batches) for r in asked for p in r.partitions if p.partition == index]
        assert sent == list(range(index, 50, 2))


async def test_requests_of_a_partition_keep_their_order_whatever_their_size(bench: Bench) -> None:
    """The first one's partitions are many, so looking its leaders up takes longer than all of the others."""
    wide = Topic("W" * 22, "wide", 40)
    bench.gateway.catalog.catalog.apply(TopicRecord(wide), 2)
    bench.leader.answer = appending
    parts = [pb.ProduceRequest.PartitionData(index=index, records=b"0") for index in range(40)]
    first = pb.ProduceRequest(topic_data=[pb.ProduceRequest.TopicData(name="wide", partition_data=parts)])
    call = bench.produce.ProduceStream()
    await call.write(pb.ProduceStreamRequest(id=0, produce=first))
    for number in range(1, 6):
        request = produced(7, str(number).encode(), name="wide")
        await call.write(pb.ProduceStreamRequest(id=number, produce=request))
    await call.done_writing()
    assert len([answer async for answer in call]) == 6
    asked = bench.leader.of(leader.ProduceRequest)
    assert [int(p.record_batches) for r in asked for p in r.partitions if p.partition == 7] == [*range(6)]


async def test_a_batch_that_is_tried_again_is_not_overtaken(bench: Bench) -> None:
    bench.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def settle(_: str) -> None:
        bench.leader.answer = appending

    bench.ownership.on_forget = settle
    call = bench.produce.ProduceStream()
    for number in (0, 1):
        request = produced(0, str(number).encode(), name="flights")
        await call.write(pb.ProduceStreamRequest(id=number, produce=request))
    assert [(await call.read()).id for _ in range(2)] == [0, 1]
    asked = bench.leader.of(leader.ProduceRequest)
    assert [int(part.record_batches) for request in asked for part in request.partitions] == [0, 0, 1]
    call.cancel()


async def test_a_stream_is_not_read_while_much_is_under_way(bench: Bench) -> None:
    gate = bench.gate()
    call = bench.produce.ProduceStream()
    size = IN_FLIGHT_BYTES // 2
    for number in range(3):
        request = produced(number % 2, bytes(size), name="flights")
        await call.write(pb.ProduceStreamRequest(id=number, produce=request))
    await eventually(lambda: gate.waiting == 2)
    gate.open()
    assert sorted([(await call.read()).id for _ in range(3)]) == [0, 1, 2]
    assert gate.most == 2
    call.cancel()
