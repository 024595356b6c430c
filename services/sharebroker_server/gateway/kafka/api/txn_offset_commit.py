"""TxnOffsetCommit (28): stores the offsets of a consumer group if a transaction commits."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, for_version, refusal
from sharebroker_server.gateway.kafka.convert import to_proto
from sharebroker_server.gateway.kafka.groups import call_coordinator, commit_offsets
from sharebroker_server.gateway.kafka.transactions import transaction_version
from sharebroker_server.kafka_wire.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse

_ADDS_GROUP: Final = 5
"""From this version on the first offsets add the group to the transaction."""

_request = to_proto(TxnOffsetCommitRequest, pb.TxnOffsetCommitRequest)
_commit = to_proto(TxnOffsetCommitRequest, pb.OffsetCommitRequest)


async def handle(call: Call[TxnOffsetCommitRequest]) -> TxnOffsetCommitResponse:
    """Returns one result per partition."""
    if not call.request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The transactional id must not be empty.")
    version = transaction_version(call, implied=call.version >= _ADDS_GROUP)
    request = _request(call.request, transaction_version=version, commit=_commit(call.request))
    group_id, deadline = call.request.group_id, call.deadline()

    async def send() -> pb.OffsetCommitResponse:
        return await call_coordinator(call, group_id, lambda stub: stub.TxnOffsetCommit, request, deadline)

    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(
                        partition_index=index, error_code=for_version(API.key, call.version, ErrorCode(code))
                    )
                    for index, code in results
                ],
            )
            for topic, results in await commit_offsets(call, request.commit, send)
        ]
    )


_refuse = refusal(TxnOffsetCommitResponse, {"topics": "topics", "topics.partitions": "partitions"})
API = Api(28, (0, 5), handle, _refuse)
