"""Fetch (1): record batches from the logs, for consumers without a share group.

Every fetch is a full one: this broker never opens a fetch session, which KIP-227 permits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.kafka.cluster_view.leader_hints import (
    LED_ELSEWHERE,
    current_leader,
    node_endpoints,
)
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.partition_fetch import FetchReader, Partition, failed
from sharebroker_server.gateway.kafka.helpers.topics import (
    Located,
    Rejected,
    by_topic,
    each_partition,
    locate,
)
from sharebroker_server.kafka_wire.messages import FetchRequest, FetchResponse

_FULL: Final = (0, -1)
"""Session epochs of full fetches: one requests a session, the other one closes it."""

_BY_ID: Final = 13
"""From this version on requests name topics by id."""

_ERROR_OF_REQUEST: Final = 7
"""From this version on the response has an error for the whole request."""


async def handle(call: Call[FetchRequest]) -> FetchResponse:
    """Returns one result per partition; the first one has records whatever their size."""
    if call.request.session_epoch not in _FULL:
        raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    located = [
        locate(
            call,
            item,
            item.partition,
            item.current_leader_epoch,
            name=topic.topic if call.version < _BY_ID else None,
            topic_id=topic.topic_id,
        )
        for topic in call.request.topics
        for item in topic.partitions
    ]
    reader = FetchReader(call, located)
    results = await each_partition(
        located, reader.ordinary, reader.internal, lambda rejected: _rejected(call, rejected)
    )
    moved = filter(None, map(_moved, located))
    response = _response(call, results)
    response.node_endpoints = node_endpoints(call.view, moved, FetchResponse.NodeEndpoint)
    return response


def _rejected(call: Call[FetchRequest], rejected: Rejected[Partition]) -> FetchResponse.PartitionData:
    result = failed(rejected.item.partition, rejected.error.code, call.version)
    moved = _moved(rejected)
    if moved is not None:
        result.current_leader = current_leader(call.view, moved, FetchResponse.LeaderIdAndEpoch)
    return result


def _moved(one: Located[Partition] | Rejected[Partition]) -> TopicIdPartition | None:
    """Returns the partition if another broker leads it."""
    if isinstance(one, Located) or one.topic is None or one.error.code not in LED_ELSEWHERE:
        return None
    return TopicIdPartition(one.topic.topic_id, one.item.partition)


def _response(call: Call[FetchRequest], results: Iterable[FetchResponse.PartitionData]) -> FetchResponse:
    return FetchResponse(
        responses=[
            FetchResponse.FetchableTopicResponse(
                topic=topic.topic, topic_id=topic.topic_id, partitions=partitions
            )
            for topic, partitions in by_topic(call.request.topics, results)
        ]
    )


def _refuse(call: Call[FetchRequest], error: KafkaError) -> FetchResponse:
    """Returns the error of the request; before version 7 each partition has it, as in Kafka."""
    if call.version >= _ERROR_OF_REQUEST:
        return FetchResponse(error_code=error.code)
    items = (item for topic in call.request.topics for item in topic.partitions)
    return _response(call, [failed(item.partition, error.code, call.version) for item in items])


API = Api(1, (4, 18), handle, _refuse, waits=True)
