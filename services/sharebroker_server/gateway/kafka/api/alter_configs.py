"""AlterConfigs (33): replaces all configs of a resource; clients used it before IncrementalAlterConfigs."""

from __future__ import annotations

from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.configs import alter_resources
from sharebroker_server.kafka_wire.messages import AlterConfigsRequest, AlterConfigsResponse


async def handle(call: Call[AlterConfigsRequest]) -> AlterConfigsResponse:
    """Returns one result per resource."""
    return AlterConfigsResponse(responses=await alter_resources(call, _refuse, replace=True))


_refuse = Refusal(AlterConfigsResponse, {"responses": "resources"})
API = Api(33, (0, 2), handle, _refuse)
