"""DeleteShareGroupOffsets (92): deletes the state of topics in an empty group."""

from __future__ import annotations

from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.gateway.admin.groups import delete_offsets
from sharebroker_server.gateway.kafka.call import SHARE, Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.kafka_wire.messages import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)

_response = to_kafka(pb.DeleteShareGroupOffsetsResponse, DeleteShareGroupOffsetsResponse)


async def handle(call: Call[DeleteShareGroupOffsetsRequest]) -> DeleteShareGroupOffsetsResponse:
    """Returns one result per topic."""
    call.view.check_coordinates(call.request.group_id)
    request = pb.DeleteShareGroupOffsetsRequest(
        group_id=call.request.group_id, topic_names=[topic.topic_name for topic in call.request.topics]
    )
    return _response(await delete_offsets(call.gateway, request, call.deadline()))


API = Api(92, (0, 0), handle, Refusal(DeleteShareGroupOffsetsResponse), feature=SHARE)
