"""ShareAcknowledge (79): a member's decisions on the records it holds."""

from __future__ import annotations

from typing import Any

from libs.kafka_wire.shapes import Message, response_shapes
from libs.share_calls.values import TopicPartition
from services.gateway.core.values import SessionKey
from services.gateway.kafka.call import SHARE, Api, Call
from services.gateway.kafka.leading import LED_ELSEWHERE, current_leader, node_endpoints
from services.gateway.kafka.share_session import asked, caller
from services.gateway.service.share_acknowledge import AckResults, ShareAcknowledge, share_acknowledge
from sharebroker.errors import KafkaError

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


def _partition(call: Call, part: TopicPartition, error: KafkaError | None) -> Message:
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
