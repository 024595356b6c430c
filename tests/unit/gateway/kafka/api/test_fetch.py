"""Fetch: records of ordinary and internal topics, errors per partition, leader hints."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.catalog.topics import OFFSETS_TOPIC
from sharebroker_server.gateway.kafka.api.fetch import FetchReader, failed
from sharebroker_server.gateway.kafka.topics import Located, Rejected, locate
from sharebroker_server.kafka_wire.messages import FetchRequest, FetchResponse
from sharebroker_server.security.acl import AclOperation
from tests.unit.gateway.fakes import TOPIC, move_upstream
from tests.unit.gateway.kafka.api.harness import Harness


def request(
    version: int, *indexes: int, name: str = TOPIC.name, topic_id: str = TOPIC.topic_id
) -> FetchRequest:
    partitions = [
        FetchRequest.FetchPartition(partition=index, fetch_offset=5, partition_max_bytes=100)
        for index in indexes
    ]
    by_id = version >= 13
    topic = FetchRequest.FetchTopic(
        topic="" if by_id else name, topic_id=topic_id if by_id else "", partitions=partitions
    )
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1000, topics=[topic], session_epoch=-1)


@pytest.mark.parametrize("version", [4, 12, 13, 18])
async def test_records_are_returned_by_partition(harness: Harness, version: int) -> None:
    aborted = pb.FetchResponse.AbortedTransaction(producer_id=5, first_offset=4)
    fields = {"high_watermark": 9, "last_stable_offset": 8, "log_start_offset": 2, "records": b"batch"}
    harness.services.reply_each("Fetch", pb.FetchResponse, aborted_transactions=[aborted], **fields)
    response = await harness.call(version, request(version, 0, 7), FetchResponse)
    (topic,) = response.responses
    assert (topic.topic, topic.topic_id) == (("", TOPIC.topic_id) if version >= 13 else (TOPIC.name, ""))
    found, unknown = topic.partitions
    assert (found.partition_index, found.error_code, found.records) == (0, 0, b"batch")
    assert (found.high_watermark, found.last_stable_offset, found.aborted_transactions) == (9, 8, None)
    assert (unknown.error_code, unknown.high_watermark) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    (sent,) = harness.services.only("Fetch").partitions
    assert (sent.topic_id, sent.partition, sent.fetch_offset) == (TOPIC.topic_id, 0, 5)


async def test_aborted_transactions_are_returned_with_read_committed(harness: Harness) -> None:
    aborted = pb.FetchResponse.AbortedTransaction(producer_id=5, first_offset=4)
    harness.services.reply_each("Fetch", pb.FetchResponse, aborted_transactions=[aborted])
    committed = request(12, 0)
    committed.isolation_level = 1
    (topic,) = (await harness.call(12, committed, FetchResponse)).responses
    assert [
        (one.producer_id, one.first_offset) for one in topic.partitions[0].aborted_transactions or ()
    ] == [(5, 4)]


async def test_internal_topics_are_read_at_their_coordinators(harness: Harness) -> None:
    shard = state.FetchShareGroupStateResponse(record_batches=b"shard", high_watermark=7, log_start_offset=1)
    harness.services.reply("FetchGroupLog", shard)
    (topic,) = (await harness.call(12, request(12, 3, name=OFFSETS_TOPIC), FetchResponse)).responses
    (found,) = topic.partitions
    assert (found.records, found.high_watermark, found.log_start_offset) == (b"shard", 7, 1)
    assert harness.services.only("FetchGroupLog").shard == 3


@pytest.mark.parametrize(("version", "hinted"), [(11, False), (12, True), (18, True)])
async def test_another_leader_is_an_error_with_a_hint(harness: Harness, version: int, hinted: bool) -> None:
    harness.lead_elsewhere()
    response = await harness.call(version, request(version, 0), FetchResponse)
    (partition,) = response.responses[0].partitions
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = (partition.current_leader.leader_id, partition.current_leader.leader_epoch)
    assert leader == ((2, 3) if hinted else (-1, -1))
    endpoints = [(one.node_id, one.host, one.port) for one in response.node_endpoints]
    assert endpoints == ([(2, "127.0.0.1", 9093)] if version >= 16 else [])


@pytest.mark.parametrize(
    ("epoch", "code"), [(2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
async def test_leader_epochs_are_checked(harness: Harness, epoch: int, code: ErrorCode) -> None:
    checked = request(12, 0)
    checked.topics[0].partitions[0].current_leader_epoch = epoch
    response = await harness.call(12, checked, FetchResponse)
    assert response.responses[0].partitions[0].error_code == code


async def test_fetch_sessions_do_not_exist(harness: Harness) -> None:
    session = request(12, 0)
    session.session_epoch = 3
    response = await harness.call(12, session, FetchResponse)
    assert (response.error_code, response.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])


Partition = FetchRequest.FetchPartition


def reader(harness: Harness, *names: str, **fields: Any) -> tuple[FetchReader, list[Any]]:
    defaults = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 100}
    call = harness.call_of(FetchRequest(**{**defaults, **fields}))
    parts = [Partition(partition=number, partition_max_bytes=100) for number in range(len(names))]
    located: list[Located[Partition] | Rejected[Partition]] = [
        locate(call, AclOperation.READ, part, part.partition, name=name)
        for part, name in zip(parts, names, strict=True)
    ]
    return FetchReader(call, located), located


async def test_a_moved_partition_ends_the_wait(harness: Harness) -> None:
    waiting, _ = reader(harness, TOPIC.name, "unknown")
    assert waiting._wait == 0.5, "an unknown topic does not end the wait"
    harness.lead_elsewhere()
    moved, _ = reader(harness, TOPIC.name)
    assert moved._wait == 0.0


async def test_records_of_internal_topics_end_the_wait_for_ordinary_ones(harness: Harness) -> None:
    shard = state.FetchShareGroupStateResponse(record_batches=b"x" * 80)
    harness.services.reply("FetchGroupLog", shard)
    harness.services.reply_each("Fetch", pb.FetchResponse, records=b"y")
    mixed, located = reader(harness, OFFSETS_TOPIC, TOPIC.name)
    (internal,) = await mixed.internal([located[0]])
    (ordinary,) = await mixed.ordinary([located[1]])
    assert (internal.records, ordinary.records) == (b"x" * 80, b"y")
    assert mixed._wait == 0.0


async def test_the_response_limit_omits_records_after_the_first(harness: Harness) -> None:
    harness.services.reply("FetchGroupLog", state.FetchShareGroupStateResponse(record_batches=b"x" * 80))
    both, located = reader(harness, OFFSETS_TOPIC, OFFSETS_TOPIC)
    first, second = await both.internal(located)
    assert (len(first.records or b""), len(second.records or b"")) == (80, 0)


@pytest.mark.parametrize(
    ("code", "sent"),
    [
        (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_errors_that_java_does_not_expect_are_replaced(code: ErrorCode, sent: ErrorCode) -> None:
    result = failed(3, code, 12)
    assert (result.partition_index, result.error_code, result.high_watermark) == (3, sent, -1)


@pytest.mark.parametrize("version", [4, 12, 13, 18])
async def test_topics_of_an_upstream_cluster_are_not_read(harness: Harness, version: int) -> None:
    move_upstream(harness.gateway.catalog)
    response = await harness.call(version, request(version, 0, 1), FetchResponse)
    codes = [part.error_code for topic in response.responses for part in topic.partitions]
    assert codes == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    assert not harness.services.requests["Fetch"]
