"""ShareFetch (78): acquires records for a member, and acknowledges records that it holds."""

from __future__ import annotations

from collections.abc import Sequence

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.core.validation import acquire_mode
from sharebroker_server.gateway.kafka.call import SHARE, Api, Call, refusal
from sharebroker_server.gateway.kafka.cluster_view import LED_ELSEWHERE, current_leader, node_endpoints
from sharebroker_server.gateway.kafka.idle import SHARE_FETCH, predict_fetch
from sharebroker_server.gateway.kafka.share_sessions import ack_batches, caller
from sharebroker_server.gateway.share.fetch import Fetched, ShareFetch, share_fetch
from sharebroker_server.kafka_wire.messages import ShareFetchRequest, ShareFetchResponse

_Topic = ShareFetchResponse.ShareFetchableTopicResponse
_Partition = ShareFetchResponse.PartitionData


async def handle(call: Call[ShareFetchRequest]) -> ShareFetchResponse:
    """Returns the partitions of the session that have records, results or errors."""
    fetched = await share_fetch(call.gateway, _request(call), call.deadline())
    moved = (result.partition for result in fetched if _moved(result))
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=call.gateway.lock_timeout_ms(call.request.group_id or ""),
        responses=_topics(call, fetched),
        node_endpoints=node_endpoints(call.view, moved, ShareFetchResponse.NodeEndpoint),
    )


def _request(call: Call[ShareFetchRequest]) -> ShareFetch:
    request = call.request
    return ShareFetch(
        caller(call),
        SessionKey(request.group_id or "", request.member_id or ""),
        request.share_session_epoch,
        ack_batches(request.topics),
        [
            TopicIdPartition(topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ],
        max_wait_ms=max(request.max_wait_ms - round(call.queued_for * 1000), min(request.max_wait_ms, 0)),
        min_bytes=request.min_bytes,
        max_bytes=call.limit_bytes(request.max_bytes),
        max_records=request.max_records,
        batch_size=request.batch_size,
        mode=acquire_mode(request.share_acquire_mode),
        renews=request.is_renew_ack,
        first_loaded=call.client.is_librdkafka,
    )


def _topics(call: Call, fetched: Sequence[Fetched]) -> list[_Topic]:
    topics: dict[str, list[_Partition]] = {}
    for result in fetched:
        topics.setdefault(result.partition.topic_id, []).append(_partition(call, result))
    return [_Topic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()]


def _partition(call: Call, result: Fetched) -> _Partition:
    """Returns one partition. As in Kafka, a failed fetch has no error message."""
    made = _Partition(
        partition_index=result.partition.partition,
        error_code=result.error,
        records=result.records,
        acquired_records=[
            ShareFetchResponse.AcquiredRecords(
                first_offset=acquired.first,
                last_offset=acquired.last,
                delivery_count=acquired.delivery_count,
            )
            for acquired in result.acquired
        ],
    )
    if result.acknowledge_error is not None:
        made.acknowledge_error_code = result.acknowledge_error.code
        made.acknowledge_error_message = result.acknowledge_error.message
    if _moved(result):
        make = ShareFetchResponse.LeaderIdAndEpoch
        made.current_leader = current_leader(call.view, result.partition, make)
    return made


def _moved(result: Fetched) -> bool:
    acknowledge = result.acknowledge_error
    return result.error in LED_ELSEWHERE or (acknowledge is not None and acknowledge.code in LED_ELSEWHERE)


API = Api(
    SHARE_FETCH,
    (1, 2),
    handle,
    refusal(ShareFetchResponse),
    waits=True,
    feature=SHARE,
    predict=predict_fetch,
)
