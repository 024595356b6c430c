"""ShareFetch (78): records for a member, with its acknowledgements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.core.validation import acquire_mode
from sharebroker_server.gateway.core.values import SessionKey
from sharebroker_server.gateway.kafka.cluster_view.leader_hints import (
    LED_ELSEWHERE,
    current_leader,
    node_endpoints,
)
from sharebroker_server.gateway.kafka.dispatch.call import SHARE, Api, Call
from sharebroker_server.gateway.kafka.helpers.share_session import asked, caller
from sharebroker_server.gateway.kafka.idle.share_fetch import SHARE_FETCH, quiet_fetch
from sharebroker_server.gateway.share.fetch import Fetched, ShareFetch, share_fetch
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(SHARE_FETCH)


async def handle(call: Call) -> Message:
    """The session's partitions that have something to tell."""
    fetched = await share_fetch(call.gateway, _request(call), call.deadline())
    return _R.ShareFetchResponse(
        acquisition_lock_timeout_ms=call.gateway.lock_timeout_ms(call.request.group_id),
        responses=_topics(call, fetched),
        node_endpoints=node_endpoints(
            call.view, (one.partition for one in fetched if _moved(one)), _R.NodeEndpoint
        ),
    )


def _request(call: Call) -> ShareFetch:
    request = call.request
    return ShareFetch(
        caller(call),
        SessionKey(request.group_id or "", request.member_id or ""),
        request.share_session_epoch,
        asked(request.topics),
        [
            TopicIdPartition(topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ],
        max_wait_ms=max(request.max_wait_ms - round(call.waited * 1000), min(request.max_wait_ms, 0)),
        min_bytes=request.min_bytes,
        max_bytes=call.most_bytes(request.max_bytes),
        max_records=request.max_records,
        batch_size=request.batch_size,
        mode=acquire_mode(request.share_acquire_mode),
        renews=request.is_renew_ack,
        first_loaded=call.client.is_librdkafka,
    )


def _topics(call: Call, fetched: Sequence[Fetched]) -> list[Message]:
    topics: dict[str, Any] = {}
    for one in fetched:
        topic_id = one.partition.topic_id
        if topic_id not in topics:
            topics[topic_id] = _R.ShareFetchableTopicResponse(topic_id=topic_id, partitions=[])
        topics[topic_id].partitions.append(_partition(call, one))
    return list(topics.values())


def _partition(call: Call, one: Fetched) -> Message:
    """Kafka leaves the message of a failed fetch out."""
    more: dict[str, Any] = {}
    if one.acknowledge_error is not None:
        more["acknowledge_error_code"] = one.acknowledge_error.code
        more["acknowledge_error_message"] = one.acknowledge_error.message
    if _moved(one):
        more["current_leader"] = current_leader(call.view, one.partition, _R.LeaderIdAndEpoch)
    return _R.PartitionData(
        partition_index=one.partition.partition,
        error_code=one.error,
        records=one.records,
        acquired_records=[
            _R.AcquiredRecords(
                first_offset=run.first, last_offset=run.last, delivery_count=run.delivery_count
            )
            for run in one.acquired
        ],
        **more,
    )


def _moved(one: Fetched) -> bool:
    acknowledge = one.acknowledge_error
    return one.error in LED_ELSEWHERE or (acknowledge is not None and acknowledge.code in LED_ELSEWHERE)


def _refuse(_call: Call, error: KafkaError) -> Message:
    return _R.ShareFetchResponse(error_code=error.code, error_message=error.message)


API = Api(SHARE_FETCH, (1, 2), handle, _refuse, waits=True, feature=SHARE, expected=quiet_fetch)
