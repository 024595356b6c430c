"""AlterShareGroupOffsets (91): sets the start offsets of an empty group."""

from __future__ import annotations

from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.gateway.admin.groups import alter_offsets
from sharebroker_server.gateway.kafka.call import SHARE, Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.kafka_wire.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)

_NAMES = {"partition_index": "partition"}
_request = to_proto(AlterShareGroupOffsetsRequest, pb.AlterShareGroupOffsetsRequest, _NAMES)
_response = to_kafka(pb.AlterShareGroupOffsetsResponse, AlterShareGroupOffsetsResponse, _NAMES)


async def handle(call: Call[AlterShareGroupOffsetsRequest]) -> AlterShareGroupOffsetsResponse:
    """Returns one result per partition; creates a group that does not exist."""
    call.view.check_coordinates(call.request.group_id)
    return _response(await alter_offsets(call.gateway, _request(call.request), call.deadline()))


API = Api(91, (0, 0), handle, Refusal(AlterShareGroupOffsetsResponse), feature=SHARE)
