"""ShareAcknowledge (79): a member's decisions on the records it holds."""

from __future__ import annotations

from typing import Any

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.core.values import SessionKey
from sharebroker_server.gateway.kafka.cluster_view.leader_hints import (
    LED_ELSEWHERE,
    current_leader,
    node_endpoints,
)
from sharebroker_server.gateway.kafka.dispatch.call import SHARE, Api, Call
from sharebroker_server.gateway.kafka.helpers.share_session import asked, caller
from sharebroker_server.gateway.share.acknowledge import AckResults, ShareAcknowledge, share_acknowledge
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(79)


async def handle(call: Call) -> Message:
    """Every partition that was sent comes back, durable or refused."""
    request = call.request
    results = await share_acknowledge(
        call.gateway,
        ShareAcknowledge(
            caller(call),
            SessionKey(request.group_id or "", request.member_id or ""),
            request.share_session_epoch,
            asked(request.topics),
            request.is_renew_ack,
        ),
        call.deadline(),
    )
    moved = [part for part, error in results.items() if _moved(error)]
    return _R.ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=call.gateway.lock_timeout_ms(request.group_id),
        responses=_topics(call, results),
        node_endpoints=node_endpoints(call.view, moved, _R.NodeEndpoint),
    )


def _topics(call: Call, results: AckResults) -> list[Message]:
    topics: dict[str, Any] = {}
    for part, error in results.items():
        if part.topic_id not in topics:
            topics[part.topic_id] = _R.ShareAcknowledgeTopicResponse(topic_id=part.topic_id, partitions=[])
        topics[part.topic_id].partitions.append(_partition(call, part, error))
    return list(topics.values())


def _partition(call: Call, part: TopicIdPartition, error: KafkaError | None) -> Message:
    if error is None:
        return _R.PartitionData(partition_index=part.partition)
    more: dict[str, Any] = {}
    if _moved(error):
        more["current_leader"] = current_leader(call.view, part, _R.LeaderIdAndEpoch)
    return _R.PartitionData(
        partition_index=part.partition, error_code=error.code, error_message=error.message, **more
    )


def _moved(error: KafkaError | None) -> bool:
    return error is not None and error.code in LED_ELSEWHERE


def _refuse(_call: Call, error: KafkaError) -> Message:
    return _R.ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)


API = Api(79, (1, 2), handle, _refuse, feature=SHARE)
