"""What the definitions are asked to work on, out of the session's configuration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

PREFIX: Final = "sharebroker.pipeline."
DEFAULT_LIMIT: Final = 5
"""Kafka's share.delivery.count.limit."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where to read from, as whom, whose state to look at (empty: all), and delivery limits by group."""

    server: str
    topic: str
    group: str
    watch: str
    limits: dict[str, int]
    records_per_trigger: str

    @staticmethod
    def of(spark: Any) -> Settings:
        """Those of a session, which spark-pipeline.yml gave it."""

        def value(name: str) -> str:
            return str(spark.conf.get(PREFIX + name))

        return Settings(
            value("server"),
            value("topic"),
            value("group"),
            value("watch"),
            json.loads(value("limits")),
            value("records_per_trigger"),
        )

    def to_configuration(self) -> dict[str, str]:
        """The inverse of `of`."""
        return {
            f"{PREFIX}server": self.server,
            f"{PREFIX}topic": self.topic,
            f"{PREFIX}group": self.group,
            f"{PREFIX}watch": self.watch,
            f"{PREFIX}limits": json.dumps(self.limits),
            f"{PREFIX}records_per_trigger": self.records_per_trigger,
        }
