"""The features of the cluster: as the catalog has them, and changes through the owner of the catalog."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_server.catalog.features import SUPPORTED
from sharebroker_server.gateway.admin.visibility import await_visible
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.security import audit

_OPERATION: Final = "UpdateFeatures"
_RESOURCE: Final = "FEATURE"


def describe_features(gateway: Gateway) -> admin.DescribeFeaturesResponse:
    """Returns the supported levels of each feature and the level of the cluster."""
    levels = gateway.catalog.features
    return admin.DescribeFeaturesResponse(
        features=[
            admin.DescribeFeaturesResponse.Feature(
                name=name, min_version=lowest, max_version=highest, finalized_level=levels.get(name, 0)
            )
            for name, (lowest, highest) in SUPPORTED.items()
        ],
        features_epoch=gateway.catalog.catalog.features_epoch,
    )


async def update_features(
    gateway: Gateway, request: pb.UpdateFeaturesRequest, deadline: Deadline
) -> pb.UpdateFeaturesResponse:
    """Changes levels, all or none; returns when the metadata cache has them.

    Raises INVALID_UPDATE_VERSION.
    """
    with audit.changing(_OPERATION, _RESOURCE, (update.feature for update in request.feature_updates)):
        response = await gateway.coordinators.of_catalog(
            lambda stub, left: stub.UpdateFeatures(request, timeout=left), deadline
        )
    if request.validate_only:
        return response
    for update in request.feature_updates:
        audit.change(_OPERATION, _RESOURCE, update.feature, 0, level=update.max_version_level)
    epoch = response.features_epoch
    await await_visible(gateway, lambda catalog: catalog.features_epoch >= epoch, deadline)
    return response
