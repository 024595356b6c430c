"""AlterConfigs (33): a resource gets these settings and no others; what clients used before key 44."""

from __future__ import annotations

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.alter_configs import Outcomes, alter, results
from sharebroker_server.gateway.kafka.helpers.configs import replacing
from sharebroker_server.gateway.kafka.helpers.per_item import refusal
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(33)


async def handle(call: Call) -> Message:
    """Each resource has its own result."""
    return _response(call, await alter(call, replacing, replace=True))


def _response(call: Call, outcomes: Outcomes) -> Message:
    return _R.AlterConfigsResponse(responses=results(_R.AlterConfigsResourceResponse, call, outcomes))


def _refuse(call: Call, error: KafkaError) -> Message:
    return _response(call, refusal(error, call.request.resources))


API = Api(33, (0, 2), handle, _refuse)
