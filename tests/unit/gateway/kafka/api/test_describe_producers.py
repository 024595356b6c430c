"""DescribeProducers: the producers of each partition."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.catalog.topics import OFFSETS_TOPIC
from sharebroker_server.kafka_wire.messages import DescribeProducersRequest, DescribeProducersResponse
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness, codes


async def test_each_partition_has_its_own_result(harness: Harness) -> None:
    producer = pb.DescribeProducersResponse.ProducerState(
        producer_id=5,
        producer_epoch=2,
        last_sequence=9,
        last_timestamp=1000,
        coordinator_epoch=3,
        current_txn_start_offset=40,
    )
    harness.services.reply_each(
        "DescribeProducers", pb.DescribeProducersResponse, active_producers=[producer]
    )
    named = [(TOPIC.name, [1, 7]), (OFFSETS_TOPIC, [0])]
    topics = [
        DescribeProducersRequest.TopicRequest(name=name, partition_indexes=indexes) for name, indexes in named
    ]
    response = await harness.call(0, DescribeProducersRequest(topics=topics), DescribeProducersResponse)
    assert [topic.name for topic in response.topics] == [TOPIC.name, OFFSETS_TOPIC]
    found, unknown = response.topics[0].partitions
    assert (found.partition_index, found.error_code, found.error_message) == (1, 0, None)
    (state,) = found.active_producers
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (5, 2, 9)
    assert (state.last_timestamp, state.coordinator_epoch, state.current_txn_start_offset) == (1000, 3, 40)
    assert (unknown.partition_index, unknown.error_code) == (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    (internal,) = response.topics[1].partitions
    assert (internal.error_code, internal.active_producers) == (0, [])


async def test_partitions_of_another_leader_are_errors(harness: Harness) -> None:
    harness.lead_elsewhere()
    topic = DescribeProducersRequest.TopicRequest(name=TOPIC.name, partition_indexes=[0])
    response = await harness.call(0, DescribeProducersRequest(topics=[topic]), DescribeProducersResponse)
    assert codes(response.topics[0].partitions) == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
