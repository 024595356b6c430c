"""TxnOffsetCommit (28): stores the offsets of a consumer group if a transaction commits."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal, for_version
from sharebroker_server.gateway.kafka.convert import to_proto
from sharebroker_server.gateway.kafka.groups import call_coordinator, commit_offsets
from sharebroker_server.gateway.kafka.topics import by_topic
from sharebroker_server.kafka_wire.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_ADDS_GROUP: Final = 5
"""From this version on the first offsets add the group to the transaction."""

_BY_ID: Final = 6
"""From this version on topics have ids instead of names."""

_request = to_proto(TxnOffsetCommitRequest, pb.TxnOffsetCommitRequest)
_commit = to_proto(TxnOffsetCommitRequest, pb.OffsetCommitRequest)
_Partition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition
_Topic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic


async def handle(call: Call[TxnOffsetCommitRequest]) -> TxnOffsetCommitResponse:
    """Returns one result per partition."""
    if not call.request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The transactional id must not be empty.")
    call.rights.require(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, call.request.transactional_id)
    call.rights.require(AclOperation.READ, AclResourceType.GROUP, call.request.group_id)
    version = call.transaction_version(implied=call.version >= _ADDS_GROUP)
    request = _request(call.request, transaction_version=version, commit=_commit(call.request))
    deadline = call.deadline()

    async def send() -> pb.OffsetCommitResponse:
        group_id = call.request.group_id
        return await call_coordinator(
            call, lambda stub: stub.TxnOffsetCommit, request, group_id=group_id, deadline=deadline
        )

    results = (
        _Partition(partition_index=index, error_code=for_version(API.key, call.version, ErrorCode(code)))
        for index, code in await commit_offsets(call, request.commit, send, by_id=call.version >= _BY_ID)
    )
    return TxnOffsetCommitResponse(topics=await by_topic(call, results, _Topic))


_refuse = Refusal(TxnOffsetCommitResponse, {"topics": "topics", "topics.partitions": "partitions"})
API = Api(28, (0, 6), handle, _refuse)
