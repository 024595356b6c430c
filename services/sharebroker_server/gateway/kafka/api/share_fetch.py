"""ShareFetch (78): acquires records for a member, and acknowledges records that it holds."""

from __future__ import annotations

from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.features import SHARE
from sharebroker_server.gateway.core.validation import acquire_mode
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.response_cache import SHARE_FETCH, predict_fetch
from sharebroker_server.gateway.kafka.share_sessions import ack_batches, add_results, caller, session_key
from sharebroker_server.gateway.share.acknowledge import Acks
from sharebroker_server.gateway.share.fetch import FetchedPartition, ShareFetch, share_fetch
from sharebroker_server.kafka_wire.messages import ShareFetchRequest, ShareFetchResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_Topic = ShareFetchResponse.ShareFetchableTopicResponse
_Partition = ShareFetchResponse.PartitionData
_Acquired = ShareFetchResponse.AcquiredRecords


async def handle(call: Call[ShareFetchRequest]) -> ShareFetchResponse:
    """Returns the partitions of the session that have records, results or errors."""
    call.rights.require(AclOperation.READ, AclResourceType.GROUP, call.request.group_id or "")
    request = _request(call, await ack_batches(call))
    fetched = await share_fetch(call.gateway, request, call.deadline())
    lock_ms = call.gateway.catalog.lock_timeout_ms(request.key.group_id)
    return await add_results(
        call,
        ShareFetchResponse(acquisition_lock_timeout_ms=lock_ms),
        _Topic,
        ((result.partition, _result(result)) for result in fetched),
    )


def _request(call: Call[ShareFetchRequest], acks: Acks) -> ShareFetch:
    request = call.request
    return ShareFetch(
        caller(call),
        session_key(call),
        request.share_session_epoch,
        acks,
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
        client_id=call.client_id,
    )


def _result(fetched: FetchedPartition) -> _Partition:
    """Returns the result of one partition. As in Kafka, a failed fetch has no error message."""
    result = _Partition(
        partition_index=fetched.partition.partition,
        error_code=fetched.error,
        records=fetched.records,
        acquired_records=[
            _Acquired(first_offset=one.first, last_offset=one.last, delivery_count=one.delivery_count)
            for one in fetched.acquired
        ],
    )
    if fetched.acknowledge_error is not None:
        result.acknowledge_error_code = fetched.acknowledge_error.code
        result.acknowledge_error_message = fetched.acknowledge_error.message
    return result


_refuse = Refusal(ShareFetchResponse)
API = Api(SHARE_FETCH, (1, 2), handle, _refuse, waits=True, feature=SHARE, predict=predict_fetch)
