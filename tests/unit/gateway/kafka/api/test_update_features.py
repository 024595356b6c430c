"""UpdateFeatures: accepts the current levels only."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.unit.gateway.kafka.api.harness import Harness


def request(**levels: int) -> UpdateFeaturesRequest:
    updates = [
        UpdateFeaturesRequest.FeatureUpdateKey(feature=name.replace("_", "."), max_version_level=level)
        for name, level in levels.items()
    ]
    return UpdateFeaturesRequest(feature_updates=updates)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_current_levels_are_accepted(harness: Harness, version: int) -> None:
    accepted = request(share_version=1, transaction_version=2)
    response = await harness.call(version, accepted, UpdateFeaturesResponse)
    assert response.error_code == ErrorCode.NONE
    names = [one.feature for one in response.results]
    assert names == (["share.version", "transaction.version"] if version < 2 else [])


@pytest.mark.parametrize(
    ("level", "reason"),
    [
        (0, "Its level is 1; start the servers with --feature share.version=0."),
        (9, "Levels 0 to 1 of share.version are supported."),
    ],
)
async def test_one_other_level_fails_all_updates(harness: Harness, level: int, reason: str) -> None:
    response = await harness.call(
        1, request(transaction_version=2, share_version=level), UpdateFeaturesResponse
    )
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert (response.error_message or "").endswith(reason)
    assert [(one.feature, one.error_code) for one in response.results] == [
        ("transaction.version", ErrorCode.INVALID_UPDATE_VERSION),
        ("share.version", ErrorCode.INVALID_UPDATE_VERSION),
    ]
