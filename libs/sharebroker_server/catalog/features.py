"""The features of a cluster, and the rules by which their levels change.

Kafka: `FeatureControlManager` (changes), `Feature` and `ShareVersion` (levels).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.records import UNSTORED_LEVELS

SHARE: Final = "share.version"
TRANSACTION: Final = "transaction.version"

SHARE_VERSION_MAX: Final = 2
"""The highest level of share.version: 1 has share groups, 2 also dead letter queues (KIP-1191)."""

DEAD_LETTERS: Final = 2
"""The level of share.version from which a group may have a dead letter queue."""

SUPPORTED: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {SHARE: (0, SHARE_VERSION_MAX), TRANSACTION: (0, 2)}
)
"""The lowest and the highest level of each feature."""


class UpgradeType(IntEnum):
    """Which changes an update permits (Kafka: `FeatureUpdate.UpgradeType`)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """The requested level of a feature; `upgrade_type` is the number in the request."""

    name: str
    level: int
    upgrade_type: int


@dataclass(frozen=True, slots=True)
class UpdateFeatures:
    """Changes the levels of features, all or none. `unstored` are the levels while the catalog has none."""

    updates: tuple[FeatureUpdate, ...]
    unstored: Mapping[str, int]
    validate_only: bool = False


def parse_features(assignments: Iterable[str]) -> dict[str, int]:
    """Returns the levels of `name=level` assignments. Raises INVALID_CONFIG."""
    levels: dict[str, int] = {}
    for assignment in assignments:
        name, _, level = assignment.partition("=")
        if name not in SUPPORTED or not level.isdecimal():
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"--feature takes NAME=LEVEL with one of {', '.join(SUPPORTED)}; not {assignment!r}.",
            )
        lowest, highest = SUPPORTED[name]
        if not lowest <= int(level) <= highest:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"The level of {name} is {lowest} to {highest}; not {level}."
            )
        levels[name] = int(level)
    return levels


def new_levels(assigned: Mapping[str, int]) -> dict[str, int]:
    """Returns the levels of a new cluster: the highest, or those of `--feature` (`assigned`)."""
    return {name: assigned.get(name, highest) for name, (_, highest) in SUPPORTED.items()}


def unstored_levels(assigned: Mapping[str, int]) -> dict[str, int]:
    """Returns the levels of a cluster that stores none: an earlier release created it.

    That release took them from `--feature` (`assigned`) at each start.
    """
    return {name: min(assigned.get(name, before), before) for name, before in UNSTORED_LEVELS.items()}


def updated_levels(current: Mapping[str, int], updates: Iterable[FeatureUpdate], node: int) -> dict[str, int]:
    """Returns the levels after `updates`; the last one of each feature counts.

    `node` is the broker that decides. Raises INVALID_UPDATE_VERSION with the first invalid update.
    """
    wanted = {update.name: update for update in updates}
    for update in wanted.values():
        reason = _objection(current.get(update.name, 0), update, node)
        if reason:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.level} for feature {update.name}. {reason}",
            )
    return {**current, **{name: update.level for name, update in wanted.items()}}


def _objection(current: int, update: FeatureUpdate, node: int) -> str:
    """Returns Kafka's text why a level cannot change; empty if it can."""
    if update.upgrade_type not in set(UpgradeType):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    if update.name not in SUPPORTED:
        if not update.level:
            return f"Feature {update.name} not found."
        return f"Local controller {node} does not support this feature."
    lowest, highest = SUPPORTED[update.name]
    if not lowest <= update.level <= highest:
        return f"Local controller {node} only supports versions {lowest}-{highest}"
    upgrades = update.upgrade_type == UpgradeType.UPGRADE
    if update.level < current and upgrades:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if update.level > current and not upgrades:
        return "Can't downgrade to a newer version."
    return ""
