"""IncrementalAlterConfigs (44): single properties are set, put back, appended to, subtracted from."""

from __future__ import annotations

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.helpers.alter_configs import Outcomes, alter, results
from sharebroker_server.gateway.kafka.helpers.configs import changing
from sharebroker_server.gateway.kafka.helpers.per_item import refusal
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(44)


async def handle(call: Call) -> Message:
    """Each resource has its own result."""
    return _response(call, await alter(call, changing))


def _response(call: Call, outcomes: Outcomes) -> Message:
    responses = results(_R.AlterConfigsResourceResponse, call, outcomes)
    return _R.IncrementalAlterConfigsResponse(responses=responses)


def _refuse(call: Call, error: KafkaError) -> Message:
    return _response(call, refusal(error, call.request.resources))


API = Api(44, (0, 1), handle, _refuse)
