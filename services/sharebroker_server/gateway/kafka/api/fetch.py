"""Fetch (1): record batches as they lie in the logs, for consumers without a share group.

Every fetch is a full one: no fetch session is ever opened, which KIP-227 leaves to the broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.kafka.cluster_view.leader_hints import (
    LED_ELSEWHERE,
    current_leader,
    node_endpoints,
)
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.partition_fetch import LogReading, failed
from sharebroker_server.gateway.kafka.helpers.topics import Part, Refused, answers, by_topic, part_of, parts
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(1)

_FULL: Final = (0, -1)
"""Session epochs of full fetches: one that asks for a session, and one that wants none any more."""

_BY_ID: Final = 13
"""From this version on topics have ids, no names."""


async def handle(call: Call) -> Message:
    """Each partition has its own answer; the first one's records come however large they are."""
    if call.request.session_epoch not in _FULL:
        raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    located = [
        part_of(
            call,
            part,
            part.partition,
            part.current_leader_epoch,
            name=topic.topic if call.version < _BY_ID else None,
            topic_id=topic.topic_id,
        )
        for topic, part in parts(call.request)
    ]
    reading = LogReading(call, located)
    given = await answers(located, reading.ordinary, reading.internal, lambda one: _refused(call, one))
    elsewhere = filter(None, map(_elsewhere, located))
    return _response(call, given, node_endpoints=node_endpoints(call.view, elsewhere, _R.NodeEndpoint))


def _refused(call: Call, one: Refused) -> Message:
    elsewhere = _elsewhere(one)
    if elsewhere is None:
        return failed(one.asked.partition, one.error.code, call.version)
    leader = current_leader(call.view, elsewhere, _R.LeaderIdAndEpoch)
    return failed(one.asked.partition, one.error.code, call.version, current_leader=leader)


def _elsewhere(one: Part | Refused) -> TopicIdPartition | None:
    """The partition, where it was asked for at the wrong broker."""
    if isinstance(one, Part) or one.topic is None or one.error.code not in LED_ELSEWHERE:
        return None
    return TopicIdPartition(one.topic.topic_id, one.asked.partition)


def _response(call: Call, given: Iterable[Message], **more: Any) -> Message:
    return _R.FetchResponse(
        responses=[
            _R.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=some)
            for topic, some in by_topic(call.request, given)
        ],
        **more,
    )


def _refuse(call: Call, error: KafkaError) -> Message:
    """Kafka: before version 7 there is no error for all; each partition has it."""
    if call.version >= 7:
        return _R.FetchResponse(error_code=error.code)
    return _response(
        call, [failed(asked.partition, error.code, call.version) for _, asked in parts(call.request)]
    )


API = Api(1, (4, 18), handle, _refuse, waits=True)
