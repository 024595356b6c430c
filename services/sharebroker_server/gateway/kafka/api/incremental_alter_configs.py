"""IncrementalAlterConfigs (44): sets, resets, appends to or subtracts from single properties."""

from __future__ import annotations

from sharebroker_server.gateway.kafka.call import Api, Call, refusal
from sharebroker_server.gateway.kafka.configs import alter_resources, changes
from sharebroker_server.kafka_wire.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_Result = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


async def handle(call: Call[IncrementalAlterConfigsRequest]) -> IncrementalAlterConfigsResponse:
    """Returns one result per resource."""
    items, validate_only = call.request.resources, call.request.validate_only
    results = await alter_resources(call, items, changes, _Result, validate_only=validate_only)
    return IncrementalAlterConfigsResponse(responses=results)


API = Api(44, (0, 1), handle, refusal(IncrementalAlterConfigsResponse, {"responses": "resources"}))
