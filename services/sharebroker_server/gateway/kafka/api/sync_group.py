"""SyncGroup (14): the assignment of a consumer; the group's leader sends the assignments of all members."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, refusal
from sharebroker_server.gateway.kafka.convert import from_proto, to_proto
from sharebroker_server.gateway.kafka.groups import (
    LONGEST_REBALANCE_MS,
    call_coordinator,
    rebalance_deadline,
)
from sharebroker_server.kafka_wire.messages import SyncGroupRequest, SyncGroupResponse

_REQUIRES_PROTOCOL: Final = 5
"""From this version on requests must have the protocol that the members agreed on."""

_request = to_proto(SyncGroupRequest, pb.SyncGroupRequest)
_response = from_proto(pb.SyncGroupResponse, SyncGroupResponse)


async def handle(call: Call[SyncGroupRequest]) -> SyncGroupResponse:
    """Waits for the group's leader. Raises INCONSISTENT_GROUP_PROTOCOL for a request without a protocol."""
    if call.version >= _REQUIRES_PROTOCOL and None in (
        call.request.protocol_type,
        call.request.protocol_name,
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    group_id, request = call.request.group_id, _request(call.request)
    deadline = rebalance_deadline(LONGEST_REBALANCE_MS)
    return _response(await call_coordinator(call, group_id, lambda stub: stub.SyncGroup, request, deadline))


API = Api(14, (0, 5), handle, refusal(SyncGroupResponse, assignment=b""), waits=True)
