"""What the definitions are asked to work on, out of the session's configuration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

PREFIX: Final = "sharebroker.pipeline."
DEFAULT_LIMIT: Final = 5
"""Kafka's share.delivery.count.limit."""
_HEX: Final = "hex:"
"""Spark keeps back what looks like a secret to it, such as a topic `password-changes`: so nothing does."""


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
            text = str(spark.conf.get(PREFIX + name))
            return bytes.fromhex(text.removeprefix(_HEX)).decode() if text.startswith(_HEX) else text

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
        values = {
            "server": self.server,
            "topic": self.topic,
            "group": self.group,
            "watch": self.watch,
            "limits": json.dumps(self.limits),
            "records_per_trigger": self.records_per_trigger,
        }
        return {PREFIX + name: _HEX + value.encode().hex() for name, value in values.items()}
