"""OffsetCommit (8): stores the offsets of a consumer group."""

from __future__ import annotations

from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, refusal
from sharebroker_server.gateway.kafka.convert import to_proto
from sharebroker_server.gateway.kafka.groups import call_coordinator, commit_offsets
from sharebroker_server.kafka_wire.messages import OffsetCommitRequest, OffsetCommitResponse

_request = to_proto(
    OffsetCommitRequest, pb.OffsetCommitRequest, {"generation_id_or_member_epoch": "generation_id"}
)


async def handle(call: Call[OffsetCommitRequest]) -> OffsetCommitResponse:
    """Returns one result per partition."""
    request, group_id, deadline = _request(call.request), call.request.group_id, call.deadline()

    async def send() -> pb.OffsetCommitResponse:
        return await call_coordinator(call, group_id, lambda stub: stub.OffsetCommit, request, deadline)

    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=getattr(topic, "topic_id", ""),
                partitions=[
                    OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=index, error_code=code)
                    for index, code in results
                ],
            )
            for topic, results in await commit_offsets(call, request, send)
        ]
    )


API = Api(
    8, (2, 10), handle, refusal(OffsetCommitResponse, {"topics": "topics", "topics.partitions": "partitions"})
)
