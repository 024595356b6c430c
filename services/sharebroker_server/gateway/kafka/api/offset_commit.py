"""OffsetCommit (8): stores the offsets of a consumer group."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal, for_version
from sharebroker_server.gateway.kafka.convert import to_proto
from sharebroker_server.gateway.kafka.groups import call_coordinator, commit_offsets
from sharebroker_server.gateway.kafka.topics import by_topic
from sharebroker_server.kafka_wire.messages import OffsetCommitRequest, OffsetCommitResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_BY_ID: Final = 10
"""From this version on topics have ids instead of names."""

_NAMES = {"generation_id_or_member_epoch": "generation_id"}
_request = to_proto(OffsetCommitRequest, pb.OffsetCommitRequest, _NAMES)
_Partition = OffsetCommitResponse.OffsetCommitResponsePartition
_Topic = OffsetCommitResponse.OffsetCommitResponseTopic


async def handle(call: Call[OffsetCommitRequest]) -> OffsetCommitResponse:
    """Returns one result per partition."""
    call.rights.require(AclOperation.READ, AclResourceType.GROUP, call.request.group_id)
    request, deadline = _request(call.request), call.deadline()

    async def send() -> pb.OffsetCommitResponse:
        return await call_coordinator(call, lambda stub: stub.OffsetCommit, request, deadline=deadline)

    results = (
        _Partition(partition_index=index, error_code=for_version(API.key, call.version, ErrorCode(code)))
        for index, code in await commit_offsets(call, request, send, by_id=call.version >= _BY_ID)
    )
    return OffsetCommitResponse(topics=await by_topic(call, results, _Topic))


_refuse = Refusal(OffsetCommitResponse, {"topics": "topics", "topics.partitions": "partitions"})
API = Api(8, (2, 10), handle, _refuse)
