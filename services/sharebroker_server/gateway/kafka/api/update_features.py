"""UpdateFeatures (57): accepts the current levels only; `--feature` sets levels when brokers start."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.call import SUPPORTED, Api, Call, Refusal
from sharebroker_server.kafka_wire.messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from sharebroker_server.security.acl import AclOperation


async def handle(call: Call[UpdateFeaturesRequest]) -> UpdateFeaturesResponse:
    """Accepts all updates or none, as Kafka does.

    Raises INVALID_UPDATE_VERSION with the first invalid one.
    """
    call.rights.require_on_cluster(AclOperation.ALTER)
    updates = call.request.feature_updates
    for update in updates:
        _check(call, update)
    result = UpdateFeaturesResponse.UpdatableFeatureResult
    return UpdateFeaturesResponse(results=[result(feature=update.feature) for update in updates])


def _check(call: Call, update: UpdateFeaturesRequest.FeatureUpdateKey) -> None:
    level, requested = call.listener.features.get(update.feature), update.max_version_level
    if requested == level:
        return
    lowest, highest = SUPPORTED.get(update.feature, (0, 0))
    reason = (
        f"Levels {lowest} to {highest} of {update.feature} are supported."
        if not lowest <= requested <= highest
        else f"Its level is {level}; start the servers with --feature {update.feature}={requested}."
    )
    raise KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        "The update failed for all features since the following feature had an error: "
        f"Invalid update version {requested} for feature {update.feature}. {reason}",
    )


_each_update = Refusal(UpdateFeaturesResponse, {"results": "feature_updates"})


def _refuse(call: Call[UpdateFeaturesRequest], error: KafkaError) -> UpdateFeaturesResponse:
    """Returns the error; of a client that may not change features, no update has a result."""
    if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.message, results=[])
    return _each_update(call, error)


API = Api(57, (0, 2), handle, _refuse)
