"""The levels of features: parsing, and the rules of updates."""

from __future__ import annotations

from typing import Final

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.features import (
    SHARE,
    SHARE_VERSION_MAX,
    SUPPORTED,
    TRANSACTION,
    FeatureUpdate,
    UpgradeType,
    new_levels,
    parse_features,
    unstored_levels,
    updated_levels,
)

UPGRADE, SAFE, UNSAFE = UpgradeType
CURRENT: Final = {SHARE: 1, TRANSACTION: 1}


def test_assignments_name_features_and_levels() -> None:
    assert parse_features(()) == {}
    assert parse_features(["share.version=0", "transaction.version=2"]) == {SHARE: 0, TRANSACTION: 2}


@pytest.mark.parametrize(
    "assignment", ["share.version", "share.version=", "share.version=-1", "share.version=99", "x=1"]
)
def test_invalid_feature_levels_are_rejected(assignment: str) -> None:
    with pytest.raises(KafkaError) as refused:
        parse_features([assignment])
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("assigned", "levels"),
    [
        ({}, {SHARE: 1, TRANSACTION: 2}),
        ({SHARE: 0}, {SHARE: 0, TRANSACTION: 2}),
        ({SHARE: 2, TRANSACTION: 0}, {SHARE: 1, TRANSACTION: 0}),
    ],
)
def test_a_cluster_without_levels_keeps_the_ones_of_its_release(
    assigned: dict[str, int], levels: dict[str, int]
) -> None:
    assert unstored_levels(assigned) == levels


@pytest.mark.parametrize(
    ("updates", "levels"),
    [
        ((), CURRENT),
        ((FeatureUpdate(TRANSACTION, 2, UPGRADE),), {SHARE: 1, TRANSACTION: 2}),
        ((FeatureUpdate(SHARE, 0, SAFE), FeatureUpdate(TRANSACTION, 2, UPGRADE)), {SHARE: 0, TRANSACTION: 2}),
        ((FeatureUpdate(SHARE, 0, UNSAFE),), {SHARE: 0, TRANSACTION: 1}),
        *(((FeatureUpdate(SHARE, 1, kind),), CURRENT) for kind in UpgradeType),
        ((FeatureUpdate(SHARE, 9, UPGRADE), FeatureUpdate(SHARE, 0, SAFE)), {SHARE: 0, TRANSACTION: 1}),
    ],
)
def test_valid_updates_change_the_levels(updates: tuple[FeatureUpdate, ...], levels: dict[str, int]) -> None:
    assert updated_levels(CURRENT, updates, 3) == levels


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (FeatureUpdate(SHARE, 1, 0), "The controller does not support the given upgrade type."),
        (FeatureUpdate(SHARE, 1, 4), "The controller does not support the given upgrade type."),
        (FeatureUpdate(SHARE, -1, SAFE), "A feature version cannot be less than 0."),
        (FeatureUpdate("x", 1, UPGRADE), "Local controller 3 does not support this feature."),
        (FeatureUpdate("x", 0, UPGRADE), "Feature x not found."),
        (
            FeatureUpdate(SHARE, 9, UPGRADE),
            f"Local controller 3 only supports versions 0-{SHARE_VERSION_MAX}",
        ),
        (
            FeatureUpdate(SHARE, 0, UPGRADE),
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade.",
        ),
        (FeatureUpdate(TRANSACTION, 2, SAFE), "Can't downgrade to a newer version."),
        (FeatureUpdate(TRANSACTION, 2, UNSAFE), "Can't downgrade to a newer version."),
    ],
)
def test_one_invalid_update_fails_all_with_the_text_of_kafka(update: FeatureUpdate, reason: str) -> None:
    with pytest.raises(KafkaError) as refused:
        updated_levels(CURRENT, [FeatureUpdate(TRANSACTION, 1, UPGRADE), update], 3)
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert refused.value.message == (
        "The update failed for all features since the following feature had an error: "
        f"Invalid update version {update.level} for feature {update.name}. {reason}"
    )


def test_a_new_cluster_has_the_highest_levels_or_the_assigned_ones() -> None:
    highest = {name: highest for name, (_, highest) in SUPPORTED.items()}
    assert new_levels({}) == highest
    assert new_levels({SHARE: 0}) == {**highest, SHARE: 0}
