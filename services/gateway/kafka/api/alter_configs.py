"""AlterConfigs (33): a resource gets these settings and no others; what clients used before key 44."""

from __future__ import annotations

from libs.kafka_wire.shapes import Message, response_shapes
from services.gateway.kafka.altering import Outcomes, alter, results
from services.gateway.kafka.call import Api, Call
from services.gateway.kafka.configs import replacing
from services.gateway.kafka.several import refusal
from sharebroker.errors import KafkaError

_R = response_shapes(33)


async def handle(call: Call) -> Message:
    """Each resource has its own result."""
    return _response(call, await alter(call, replacing, replace=True))


def _response(call: Call, outcomes: Outcomes) -> Message:
    return _R.AlterConfigsResponse(responses=results(_R.AlterConfigsResourceResponse, call, outcomes))


def _refuse(call: Call, error: KafkaError) -> Message:
    return _response(call, refusal(error, call.request.resources))


API = Api(33, (0, 2), handle, _refuse)
