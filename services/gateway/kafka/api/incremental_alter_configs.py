"""IncrementalAlterConfigs (44): single properties are set, put back, appended to, subtracted from."""

from __future__ import annotations

from libs.kafka_wire.shapes import Message, response_shapes
from services.gateway.kafka.altering import Outcomes, alter, results
from services.gateway.kafka.call import Api, Call
from services.gateway.kafka.configs import changing
from services.gateway.kafka.several import refusal
from sharebroker.errors import KafkaError

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
