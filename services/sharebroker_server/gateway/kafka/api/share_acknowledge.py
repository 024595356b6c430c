"""ShareAcknowledge (79): acknowledges records that a member holds."""

from __future__ import annotations

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.kafka.call import SHARE, Api, Call, refusal
from sharebroker_server.gateway.kafka.cluster_view import LED_ELSEWHERE, current_leader, node_endpoints
from sharebroker_server.gateway.kafka.share_sessions import ack_batches, caller
from sharebroker_server.gateway.share.acknowledge import AckResults, ShareAcknowledge, share_acknowledge
from sharebroker_server.kafka_wire.messages import ShareAcknowledgeRequest, ShareAcknowledgeResponse

_Topic = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
_Partition = ShareAcknowledgeResponse.PartitionData


async def handle(call: Call[ShareAcknowledgeRequest]) -> ShareAcknowledgeResponse:
    """Returns every partition of the request, after its acknowledgements are durable or rejected."""
    request = call.request
    results = await share_acknowledge(
        call.gateway,
        ShareAcknowledge(
            caller(call),
            SessionKey(request.group_id or "", request.member_id or ""),
            request.share_session_epoch,
            ack_batches(request.topics),
            request.is_renew_ack,
        ),
        call.deadline(),
    )
    moved = [partition for partition, error in results.items() if _moved(error)]
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=call.gateway.lock_timeout_ms(request.group_id or ""),
        responses=_topics(call, results),
        node_endpoints=node_endpoints(call.view, moved, ShareAcknowledgeResponse.NodeEndpoint),
    )


def _topics(call: Call, results: AckResults) -> list[_Topic]:
    topics: dict[str, list[_Partition]] = {}
    for partition, error in results.items():
        topics.setdefault(partition.topic_id, []).append(_partition(call, partition, error))
    return [_Topic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()]


def _partition(call: Call, partition: TopicIdPartition, error: KafkaError | None) -> _Partition:
    result = _Partition(partition_index=partition.partition)
    if error is not None:
        result.error_code, result.error_message = error.code, error.message
    if _moved(error):
        make = ShareAcknowledgeResponse.LeaderIdAndEpoch
        result.current_leader = current_leader(call.view, partition, make)
    return result


def _moved(error: KafkaError | None) -> bool:
    return error is not None and error.code in LED_ELSEWHERE


API = Api(79, (1, 2), handle, refusal(ShareAcknowledgeResponse), feature=SHARE)
