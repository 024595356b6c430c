"""The features of the cluster and their levels (Kafka: finalized features)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError

SUPPORTED: Final = {"share.version": (0, 1), "transaction.version": (0, 2)}
"""Lowest and highest level of each feature. The highest is the default; `--feature` sets another one."""


def parse_features(assignments: Iterable[str]) -> dict[str, int]:
    """Returns the levels: those of the `name=level` assignments, else the highest. Raises INVALID_CONFIG."""
    levels = {name: highest for name, (_, highest) in SUPPORTED.items()}
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
