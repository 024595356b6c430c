"""Produce and ProduceStream: batches reach their leaders in order, with flow control."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from sharebroker_protocol.cluster.v1.cluster_pb2_grpc import ClusterServiceStub
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.records import TopicRecord
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.admin.topics import MAX_CREATED_ON_DEMAND
from sharebroker_server.gateway.produce.append import IN_FLIGHT_BYTES
from sharebroker_server.rpc.errors import wire
from tests.testkit.waiting import eventually
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC, UPSTREAM, move_upstream, refusing
from tests.unit.gateway.produce.requests import appending, produced


@pytest.mark.parametrize("topic", [{"name": "flights"}, {"topic_id": TOPIC.topic_id}])
async def test_produce_does_not_change_batches(harness: Harness, topic: dict[str, str]) -> None:
    harness.leader.answer = appending
    (response,) = (await harness.produce.Produce(produced(1, b"\x00\xff", **topic))).responses
    assert (response.name, response.topic_id) == (TOPIC.name, TOPIC.topic_id)
    assert (response.partition_responses[0].index, response.partition_responses[0].base_offset) == (1, 100)
    (sent,) = harness.leader.of(leader.ProduceRequest)
    assert sent.partitions[0].record_batches == b"\x00\xff"


UNKNOWN = [
    (produced(2, name="flights"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (produced(0, topic_id="B" * 22), ErrorCode.UNKNOWN_TOPIC_ID),
    (produced(0, topic_id=TOPIC.topic_id, name="other"), ErrorCode.INCONSISTENT_TOPIC_ID),
    (produced(0, name="no/topic"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (produced(0), ErrorCode.INVALID_TOPIC_EXCEPTION),
]


@pytest.mark.parametrize(("request_", "code"), UNKNOWN)
async def test_produce_errors_per_partition(
    harness: Harness, request_: pb.ProduceRequest, code: ErrorCode
) -> None:
    (response,) = (await harness.produce.Produce(request_)).responses
    assert [(part.error_code, part.base_offset) for part in response.partition_responses] == [(code, -1)]
    assert harness.leader.requests == []


class Catalog:
    """The owner of the catalog: it creates every topic, except for the one named `refused`."""

    def __init__(self, harness: Harness) -> None:
        self.requests: list[cluster.CreateTopicsRequest] = []
        self._catalog = harness.gateway.catalog
        self._catalog.broker = replace(self._catalog.broker, auto_create_topics_enable=True)
        harness.router.register_local(ClusterServiceStub, self)

    async def CreateTopics(
        self, request: cluster.CreateTopicsRequest, _: object
    ) -> cluster.CreateTopicsResponse:
        self.requests.append(request)
        response = cluster.CreateTopicsResponse()
        for topic in request.topics:
            if topic.name == "refused":
                response.topics.add(name=topic.name, error_code=wire(ErrorCode.POLICY_VIOLATION))
                continue
            made = Topic(b64encode(topic.name.rjust(16).encode()).decode().rstrip("="), topic.name, 2)
            self._catalog.catalog.apply(TopicRecord(made), len([*self._catalog.catalog.topics()]) + 1)
            response.topics.add(name=made.name, topic_id=made.topic_id)
        return response


async def test_missing_topics_are_created_by_one_bounded_request(harness: Harness) -> None:
    harness.leader.answer = appending
    catalog = Catalog(harness)
    names = ["no/topic", "__consumer_offsets", "refused", *(f"t{number}" for number in range(150))]
    request = pb.ProduceRequest()
    for name in (*names, "t0"):
        request.topic_data.append(
            produced(int(len(request.topic_data) == len(names)), name=name).topic_data[0]
        )
    responses = (await harness.produce.Produce(request)).responses
    codes = [response.partition_responses[0].error_code for response in responses]
    assert codes[:3] == [
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.POLICY_VIOLATION,
    ]
    created = MAX_CREATED_ON_DEMAND - 1
    assert codes[3:-1] == [ErrorCode.NONE] * created + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (
        150 - created
    )
    assert codes[-1] == ErrorCode.NONE, "a topic that is named twice is created once"
    (sent,) = catalog.requests
    assert [topic.name for topic in sent.topics] == ["refused", *names[3 : 3 + created]]


async def test_a_partition_named_again_is_rejected(harness: Harness) -> None:
    harness.leader.answer = appending
    request = produced(0, b"first", name="flights")
    request.topic_data.append(produced(0, b"again", topic_id=TOPIC.topic_id).topic_data[0])
    request.topic_data.append(produced(1, b"other", name="flights").topic_data[0])
    responses = (await harness.produce.Produce(request)).responses
    codes = [response.partition_responses[0].error_code for response in responses]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    (sent,) = harness.leader.of(leader.ProduceRequest)
    assert [part.record_batches for part in sent.partitions] == [b"first", b"other"]


async def test_produce_retries_at_the_new_leader(harness: Harness) -> None:
    harness.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def settle(_: str) -> None:
        harness.leader.answer = appending

    harness.ownership.on_forget = settle
    (response,) = (await harness.produce.Produce(produced(0, name="flights"))).responses
    assert response.partition_responses[0].error_code == 0
    assert len(harness.leader.of(leader.ProduceRequest)) == 2


async def test_produce_reports_a_missing_leader_within_its_timeout(harness: Harness) -> None:
    harness.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    request = produced(0, name="flights")
    request.timeout_ms = 50
    (response,) = (await harness.produce.Produce(request)).responses
    assert response.partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_stream_responds_to_all_requests_before_it_ends(harness: Harness) -> None:
    harness.leader.answer = appending
    call = harness.produce.ProduceStream()
    for number in range(50):
        request = produced(number % 2, str(number).encode(), name="flights")
        await call.write(pb.ProduceStreamRequest(id=number, produce=request))
    await call.done_writing()
    responses = [response async for response in call]
    assert sorted(response.id for response in responses) == list(range(50))
    requests = harness.leader.of(leader.ProduceRequest)
    for index in (0, 1):  # each partition got its batches in the order they were sent
        sent = [int(p.record_batches) for r in requests for p in r.partitions if p.partition == index]
        assert sent == list(range(index, 50, 2))


async def test_stream_keeps_the_order_of_a_partition(harness: Harness) -> None:
    """The first request has many partitions, so its leader look-ups take longest."""
    wide = Topic("W" * 22, "wide", 40)
    harness.gateway.catalog.catalog.apply(TopicRecord(wide), 2)
    harness.leader.answer = appending
    parts = [pb.ProduceRequest.PartitionData(index=index, records=b"0") for index in range(40)]
    first = pb.ProduceRequest(topic_data=[pb.ProduceRequest.TopicData(name="wide", partition_data=parts)])
    call = harness.produce.ProduceStream()
    await call.write(pb.ProduceStreamRequest(id=0, produce=first))
    for number in range(1, 6):
        request = produced(7, str(number).encode(), name="wide")
        await call.write(pb.ProduceStreamRequest(id=number, produce=request))
    await call.done_writing()
    assert len([response async for response in call]) == 6
    requests = harness.leader.of(leader.ProduceRequest)
    assert [int(p.record_batches) for r in requests for p in r.partitions if p.partition == 7] == [*range(6)]


async def test_stream_does_not_overtake_a_retried_batch(harness: Harness) -> None:
    harness.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def settle(_: str) -> None:
        harness.leader.answer = appending

    harness.ownership.on_forget = settle
    call = harness.produce.ProduceStream()
    for number in (0, 1):
        request = produced(0, str(number).encode(), name="flights")
        await call.write(pb.ProduceStreamRequest(id=number, produce=request))
    assert [(await call.read()).id for _ in range(2)] == [0, 1]
    requests = harness.leader.of(leader.ProduceRequest)
    assert [int(part.record_batches) for request in requests for part in request.partitions] == [0, 0, 1]
    call.cancel()


async def test_stream_is_not_read_beyond_its_in_flight_limit(harness: Harness) -> None:
    gate = harness.gate()
    call = harness.produce.ProduceStream()
    size = IN_FLIGHT_BYTES // 2
    for number in range(3):
        request = produced(number % 2, bytes(size), name="flights")
        await call.write(pb.ProduceStreamRequest(id=number, produce=request))
    await eventually(lambda: gate.waiting == 2)
    gate.open()
    assert sorted([(await call.read()).id for _ in range(3)]) == [0, 1, 2]
    assert gate.most == 2
    call.cancel()


@pytest.mark.parametrize("topic", [{"name": "flights"}, {"topic_id": TOPIC.topic_id}])
async def test_produce_to_an_upstream_cluster_names_its_address(
    harness: Harness, topic: dict[str, str]
) -> None:
    move_upstream(harness.gateway.catalog)
    (response,) = (await harness.produce.Produce(produced(0, b"batch", **topic))).responses
    (part,) = response.partition_responses
    assert (part.error_code, part.base_offset) == (ErrorCode.POLICY_VIOLATION, -1)
    assert UPSTREAM in part.error_message
