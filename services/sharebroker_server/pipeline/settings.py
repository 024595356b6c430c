"""The settings of a run, passed to Spark in the configuration of its session."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Final

from sharebroker_server.pipeline.core.definition import Definition

PREFIX: Final = "sharebroker.pipeline."
DEFAULT_LIMIT: Final = 5
"""Kafka's share.delivery.count.limit."""
_HEX: Final = "hex:"
"""Values are encoded, because Spark redacts values that look like secrets, such as a topic
`password-changes`.
"""


@dataclass(frozen=True)
class Settings:
    """The server, the groups whose state is verified (empty: all), and delivery limits by group.

    `project` is the content of the project's files, with the topic and the group of this run; `started` is
    the time of its start, in UTC.
    """

    server: str
    project: dict[str, Any]
    watch: str
    limits: dict[str, int]
    records_per_trigger: int
    started: str

    @cached_property
    def definition(self) -> Definition:
        """The project's definition, which is valid."""
        return Definition.of(self.project)

    @staticmethod
    def of(get: Callable[[str], Any]) -> Settings:
        """Returns the settings of a configuration, such as `spark.conf.get`."""
        values = {field.name: str(get(PREFIX + field.name)) for field in fields(Settings)}
        decoded = {name: bytes.fromhex(text.removeprefix(_HEX)) for name, text in values.items()}
        return Settings(**{name: json.loads(text) for name, text in decoded.items()})

    def to_configuration(self) -> dict[str, str]:
        """Returns the settings as session configuration."""
        return {
            PREFIX + name: _HEX + json.dumps(value).encode().hex() for name, value in asdict(self).items()
        }
