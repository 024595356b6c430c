"""UpdateFeatures: translated for the owner of the catalog; errors concern all updates."""

from __future__ import annotations

import pytest

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.unit.gateway.kafka.api.harness import Harness

UPGRADE, SAFE, UNSAFE = 1, 2, 3


def request(*updates: tuple[str, int, int], validate_only: bool = False) -> UpdateFeaturesRequest:
    update = UpdateFeaturesRequest.FeatureUpdateKey
    return UpdateFeaturesRequest(
        feature_updates=[
            update(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates
        ],
        validate_only=validate_only,
    )


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_updates_are_made_by_the_owner_of_the_catalog(harness: Harness, version: int) -> None:
    harness.services.reply("UpdateFeatures", pb.UpdateFeaturesResponse(features_epoch=1))
    updates = (("share.version", 0, SAFE), ("transaction.version", 2, UPGRADE))
    response = await harness.call(version, request(*updates), UpdateFeaturesResponse)
    assert response.error_code == ErrorCode.NONE
    found = [(one.feature, one.error_code, one.error_message) for one in response.results]
    expected = [("share.version", 0, "NONE"), ("transaction.version", 0, "NONE")]
    assert found == (expected if version < 2 else [])
    sent = [
        (one.feature, one.max_version_level, one.upgrade_type)
        for one in harness.services.only("UpdateFeatures").feature_updates
    ]
    # Version 0 has no upgrade type, and Kafka ignores its `allow_downgrade`.
    assert sent == ([(name, level, UPGRADE) for name, level, _ in updates] if version == 0 else [*updates])


@pytest.mark.parametrize("version", [1, 2])
async def test_an_update_can_be_validated_only(harness: Harness, version: int) -> None:
    harness.services.reply("UpdateFeatures", pb.UpdateFeaturesResponse(features_epoch=9))
    validated = request(("share.version", 0, UNSAFE), validate_only=True)
    response = await harness.call(version, validated, UpdateFeaturesResponse)
    assert response.error_code == ErrorCode.NONE
    assert harness.services.only("UpdateFeatures").validate_only


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_an_error_has_no_results(harness: Harness, version: int) -> None:
    harness.services.fail("UpdateFeatures", ErrorCode.INVALID_UPDATE_VERSION)
    response = await harness.call(version, request(("share.version", 9, UPGRADE)), UpdateFeaturesResponse)
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_UPDATE_VERSION, "on demand")
    assert not response.results
