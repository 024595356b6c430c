"""UpdateFeatures (57): changes the levels of features."""

from __future__ import annotations

from typing import cast

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_server.gateway.admin.features import update_features
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.kafka_wire.messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from sharebroker_server.security.acl import AclOperation


async def handle(call: Call[UpdateFeaturesRequest]) -> UpdateFeaturesResponse:
    """Makes all updates or none, as Kafka does. Raises INVALID_UPDATE_VERSION with the first invalid one."""
    call.rights.require_on_cluster(AclOperation.ALTER)
    updates = call.request.feature_updates
    request = pb.UpdateFeaturesRequest(validate_only=call.request.validate_only)
    for update in updates:
        request.feature_updates.add(
            feature=update.feature,
            max_version_level=update.max_version_level,
            upgrade_type=cast("pb.FeatureUpgradeType.ValueType", update.upgrade_type),
        )
    await update_features(call.gateway, request, call.deadline(call.request.timeout_ms))
    result = UpdateFeaturesResponse.UpdatableFeatureResult
    # The text is Kafka's. Versions before 2 have results, and after an error none.
    return UpdateFeaturesResponse(
        results=[result(feature=update.feature, error_message="NONE") for update in updates]
    )


API = Api(57, (0, 2), handle, Refusal(UpdateFeaturesResponse))
