"""The settings of the definitions, passed in the Spark session's configuration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

PREFIX: Final = "sharebroker.pipeline."
DEFAULT_LIMIT: Final = 5
"""Kafka's share.delivery.count.limit."""
_HEX: Final = "hex:"
"""Values are encoded, because Spark redacts values that look like secrets, such as a topic
`password-changes`.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """Server, topic, group, groups whose state is verified (empty: all), and delivery limits by group."""

    server: str
    topic: str
    group: str
    watch: str
    limits: dict[str, int]
    records_per_trigger: str

    @staticmethod
    def of(spark: Any) -> Settings:
        """Returns the settings of a session, which spark-pipeline.yml defines."""

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
        """Returns the settings as session configuration."""
        values = {
            "server": self.server,
            "topic": self.topic,
            "group": self.group,
            "watch": self.watch,
            "limits": json.dumps(self.limits),
            "records_per_trigger": self.records_per_trigger,
        }
        return {PREFIX + name: _HEX + value.encode().hex() for name, value in values.items()}
