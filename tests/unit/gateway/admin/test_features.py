"""Feature levels: described from the catalog, changed by its owner, audited."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import structlog

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.features import SHARE, SUPPORTED
from sharebroker_server.catalog.records import ClusterRecord
from sharebroker_server.gateway.admin.features import describe_features, update_features
from tests.unit.gateway.kafka.api.harness import Harness

UPDATE = pb.UpdateFeaturesRequest.FeatureUpdate(
    feature=SHARE, max_version_level=0, upgrade_type=pb.FEATURE_UPGRADE_TYPE_SAFE_DOWNGRADE
)


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    harness = Harness()
    yield harness
    await harness.close()


def test_features_are_described_with_their_levels(harness: Harness) -> None:
    harness.gateway.catalog.features = {SHARE: 0}
    harness.gateway.catalog.catalog.features_epoch = 7
    response = describe_features(harness.gateway)
    found = {one.name: (one.min_version, one.max_version, one.finalized_level) for one in response.features}
    assert found == {name: (*levels, 0) for name, levels in SUPPORTED.items()}
    assert response.features_epoch == 7


async def test_an_update_returns_when_the_metadata_cache_has_it(harness: Harness) -> None:
    cache = harness.gateway.catalog

    def update(_: pb.UpdateFeaturesRequest) -> pb.UpdateFeaturesResponse:
        cache.catalog.apply(ClusterRecord("c", {SHARE: 0}, 2), cache.catalog.position + 1)
        return pb.UpdateFeaturesResponse(features_epoch=2)

    harness.services.reply("UpdateFeatures", update)
    request = pb.UpdateFeaturesRequest(feature_updates=[UPDATE])
    with structlog.testing.capture_logs() as log:
        response = await update_features(harness.gateway, request, Deadline(5))
    assert response.features_epoch == 2
    (line,) = (line for line in log if line.get("logger") == "sharebroker.audit")
    assert (line["operation"], line["resource"], line["level"]) == ("UpdateFeatures", SHARE, 0)


async def test_a_validated_update_neither_waits_nor_counts_as_a_change(harness: Harness) -> None:
    harness.services.reply("UpdateFeatures", pb.UpdateFeaturesResponse(features_epoch=99))
    request = pb.UpdateFeaturesRequest(feature_updates=[UPDATE], validate_only=True)
    with structlog.testing.capture_logs() as log:
        await update_features(harness.gateway, request, Deadline(5))
    assert not [line for line in log if line.get("logger") == "sharebroker.audit"]


async def test_an_invalid_update_raises(harness: Harness) -> None:
    harness.services.fail("UpdateFeatures", ErrorCode.INVALID_UPDATE_VERSION)
    with pytest.raises(KafkaError) as refused:
        await update_features(
            harness.gateway, pb.UpdateFeaturesRequest(feature_updates=[UPDATE]), Deadline(5)
        )
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION
