"""UpdateFeatures: upgrade, downgrade, refusals. Each scenario leaves the level as it found it."""

from __future__ import annotations

import re
from typing import Any, Final

from tests.compat.dead_letters.scenarios import (
    API_VERSIONS,
    UPDATE_FEATURES,
    Observed,
    Run,
    Scenario,
    outcome,
)
from tests.support.kafka_client import KafkaClient, part

SHARE: Final = "share.version"
UPGRADE, SAFE, UNSAFE = 1, 2, 3
_NODE: Final = re.compile(r"Local controller \d+")
_SUPPORTED: Final = re.compile(r"versions 0-\d+")

Update = tuple[str, int, int]
"""Feature, level and upgrade type."""


async def levels(client: KafkaClient) -> tuple[int, int]:
    """Returns the level of share.version, and the epoch of the levels."""
    response = await client.ask(API_VERSIONS, 4, client_software_name="test", client_software_version="1")
    found = {one.name: one.max_version_level for one in response.finalized_features}
    return found.get(SHARE, 0), response.finalized_features_epoch


async def update(
    client: KafkaClient, *updates: Update, version: int = 2, validate_only: bool = False, **fields: Any
) -> str:
    """Sends an UpdateFeatures; returns the outcome, with the outcomes of the features before version 2."""
    requested = [
        part(
            UPDATE_FEATURES,
            "FeatureUpdateKey",
            feature=name,
            max_version_level=level,
            upgrade_type=kind,
            **fields,
        )
        for name, level, kind in updates
    ]
    response = await client.ask(
        UPDATE_FEATURES, version, feature_updates=requested, validate_only=validate_only, timeout_ms=10_000
    )
    results = sorted(
        f"{one.feature}: {outcome(one.error_code, one.error_message)}" for one in response.results
    )
    text = "; ".join([outcome(response.error_code, response.error_message), *results])
    return _SUPPORTED.sub("versions 0-N", _NODE.sub("Local controller N", text))


def _sent(*updates: Update, **fields: Any) -> Run:
    async def run(client: KafkaClient) -> Observed:
        before, _ = await levels(client)
        seen = [await update(client, *updates, **fields)]
        after, _ = await levels(client)
        return [*seen, "changed" if after != before else "same level"]

    return run


async def _down_and_up(client: KafkaClient) -> Observed:
    level, epoch = await levels(client)
    seen: Observed = []
    for kind in (SAFE, UNSAFE):
        seen.append(await update(client, (SHARE, 0, kind)))
        lowered, later = await levels(client)
        seen.append(f"level {lowered}, {'later' if later > epoch else 'same'} epoch")
        seen.append(await update(client, (SHARE, level, UPGRADE)))
    return [*seen, "as before" if (await levels(client))[0] == level else "changed"]


async def _before_version_1(client: KafkaClient) -> Observed:
    level, _ = await levels(client)
    seen = [
        await update(client, (SHARE, 0, UPGRADE), version=0),
        await update(client, (SHARE, 0, UPGRADE), version=0, allow_downgrade=True),
    ]
    lowered, _ = await levels(client)
    await update(client, (SHARE, level, UPGRADE))
    return [*seen, "same level" if lowered == level else "changed"]


SCENARIOS: Final = [
    Scenario("safe and unsafe downgrade to 0, upgrade", _down_and_up),
    Scenario("level 1, as an upgrade", _sent((SHARE, 1, UPGRADE), validate_only=True), level=2),
    Scenario("downgrade as an upgrade", _sent((SHARE, 0, UPGRADE))),
    Scenario("downgrade, validated only", _sent((SHARE, 0, SAFE), validate_only=True)),
    Scenario("a level above the highest", _sent((SHARE, 9, UPGRADE))),
    Scenario("a level above the highest, as a downgrade", _sent((SHARE, 9, SAFE))),
    Scenario("a negative level", _sent((SHARE, -1, SAFE))),
    Scenario("an unknown feature", _sent(("nonsense.version", 1, UPGRADE))),
    Scenario("an unknown feature at level 0", _sent(("nonsense.version", 0, UPGRADE))),
    Scenario("an unknown feature at level 0, as a downgrade", _sent(("nonsense.version", 0, UNSAFE))),
    Scenario("an unknown upgrade type", _sent((SHARE, 1, 0))),
    Scenario("another unknown upgrade type", _sent((SHARE, 1, 4))),
    Scenario("a valid and an invalid update", _sent((SHARE, 0, SAFE), ("nonsense.version", 1, UPGRADE))),
    Scenario("no update", _sent()),
    Scenario("an error in version 1", _sent(("nonsense.version", 1, UPGRADE), version=1)),
    Scenario("two errors in version 1", _sent(("nonsense.version", 1, 1), (SHARE, -1, SAFE), version=1)),
    Scenario("success in version 1", _sent(("transaction.version", 2, UPGRADE), version=1)),
    Scenario("version 0", _before_version_1),
]
