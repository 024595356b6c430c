"""Functions that ShareFetch and ShareAcknowledge share."""

from __future__ import annotations

from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.share_sessions import ack_batches, caller
from sharebroker_server.kafka_wire.messages import ShareFetchRequest
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness


def test_the_caller_is_the_connection(call: Call) -> None:
    made = caller(call)
    assert (made.connection, made.leaving) == ("kafka-1", False)
    assert made.serves is not None
    assert made.serves(TOPIC.topic_id, 0)


def test_a_leaving_broker_serves_nothing(api_harness: Harness) -> None:
    api_harness.lead_elsewhere()
    made = caller(api_harness.call_of(ShareFetchRequest()))
    assert made.leaving
    assert made.serves is not None
    assert not made.serves(TOPIC.topic_id, 0)


async def test_batches_of_a_partition_named_twice_are_joined(api_harness: Harness) -> None:
    batch = ShareFetchRequest.AcknowledgementBatch
    partition = ShareFetchRequest.FetchPartition
    topics = [
        ShareFetchRequest.FetchTopic(
            topic_id="t",
            partitions=[
                partition(
                    partition_index=1,
                    acknowledgement_batches=[batch(first_offset=at, last_offset=at, acknowledge_types=[1])],
                ),
                partition(partition_index=at),
            ],
        )
        for at in (5, 6)
    ]
    assert await ack_batches(api_harness.call_of(ShareFetchRequest(topics=topics))) == {
        TopicIdPartition("t", 1): [AckBatch(5, 5, [1]), AckBatch(6, 6, [1])],
        TopicIdPartition("t", 5): [],
        TopicIdPartition("t", 6): [],
    }
