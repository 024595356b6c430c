"""IncrementalAlterConfigs (44): sets, resets, appends to or subtracts from single properties."""

from __future__ import annotations

from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.configs import alter_resources
from sharebroker_server.kafka_wire.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(call: Call[IncrementalAlterConfigsRequest]) -> IncrementalAlterConfigsResponse:
    """Returns one result per resource."""
    return IncrementalAlterConfigsResponse(responses=await alter_resources(call, _refuse))


_refuse = Refusal(IncrementalAlterConfigsResponse, {"responses": "resources"})
API = Api(44, (0, 1), handle, _refuse)
