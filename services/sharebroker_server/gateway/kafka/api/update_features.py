"""UpdateFeatures (57): levels are set when the processes start (`--feature`); asking for them is fine."""

from __future__ import annotations

from typing import Any

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.dispatch.call import Api, Call
from sharebroker_server.gateway.kafka.dispatch.features import SUPPORTED
from sharebroker_server.gateway.kafka.helpers.per_item import error_fields
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_R = response_shapes(57)


async def handle(call: Call) -> Message:
    """All or none, as in Kafka: the first that cannot be says why. Raises INVALID_UPDATE_VERSION."""
    for update in call.request.feature_updates:
        _check(call, update)
    return _response(call, None)


def _check(call: Call, update: Any) -> None:
    level, wanted = call.door.features.get(update.feature), update.max_version_level
    if wanted == level:
        return
    lowest, highest = SUPPORTED.get(update.feature, (0, 0))
    why = (
        f"Levels {lowest} to {highest} of {update.feature} are supported."
        if not lowest <= wanted <= highest
        else f"Its level is {level}; start the servers with --feature {update.feature}={wanted}."
    )
    raise KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        "The update failed for all features since the following feature had an error: "
        f"Invalid update version {wanted} for feature {update.feature}. {why}",
    )


def _response(call: Call, error: KafkaError | None) -> Message:
    fields = error_fields(error)
    return _R.UpdateFeaturesResponse(
        **fields,
        results=[
            _R.UpdatableFeatureResult(feature=update.feature, **fields)
            for update in call.request.feature_updates
        ],
    )


_refuse = _response

API = Api(57, (0, 2), handle, _refuse)
