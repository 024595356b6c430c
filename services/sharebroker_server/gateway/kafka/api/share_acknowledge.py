"""ShareAcknowledge (79): acknowledges records that a member holds."""

from __future__ import annotations

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.catalog.features import SHARE
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.share_sessions import ack_batches, add_results, caller, session_key
from sharebroker_server.gateway.share.acknowledge import ShareAcknowledge, share_acknowledge
from sharebroker_server.kafka_wire.messages import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_Topic = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse
_Partition = ShareAcknowledgeResponse.PartitionData


async def handle(call: Call[ShareAcknowledgeRequest]) -> ShareAcknowledgeResponse:
    """Returns every partition of the request, after its acknowledgements are durable or rejected."""
    request, key = call.request, session_key(call)
    call.rights.require(AclOperation.READ, AclResourceType.GROUP, key.group_id)
    acks = await ack_batches(call)
    acknowledged = await share_acknowledge(
        call.gateway,
        ShareAcknowledge(caller(call), key, request.share_session_epoch, acks, request.is_renew_ack),
        call.deadline(),
    )
    lock_ms = call.gateway.catalog.lock_timeout_ms(key.group_id)
    return await add_results(
        call,
        ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_ms),
        _Topic,
        ((partition, _result(partition.partition, error)) for partition, error in acknowledged.items()),
    )


def _result(index: int, error: KafkaError | None) -> _Partition:
    if error is None:
        return _Partition(partition_index=index)
    return _Partition(partition_index=index, error_code=error.code, error_message=error.message)


API = Api(79, (1, 2), handle, Refusal(ShareAcknowledgeResponse), feature=SHARE)
