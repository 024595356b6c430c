"""AlterConfigs (33): replaces all configs of a resource; clients used it before IncrementalAlterConfigs."""

from __future__ import annotations

from sharebroker_server.gateway.kafka.call import Api, Call, refusal
from sharebroker_server.gateway.kafka.configs import alter_resources, replacements
from sharebroker_server.kafka_wire.messages import AlterConfigsRequest, AlterConfigsResponse

_Result = AlterConfigsResponse.AlterConfigsResourceResponse


async def handle(call: Call[AlterConfigsRequest]) -> AlterConfigsResponse:
    """Returns one result per resource."""
    items, validate_only = call.request.resources, call.request.validate_only
    results = await alter_resources(
        call, items, replacements, _Result, validate_only=validate_only, replace=True
    )
    return AlterConfigsResponse(responses=results)


API = Api(33, (0, 2), handle, refusal(AlterConfigsResponse, {"responses": "resources"}))
