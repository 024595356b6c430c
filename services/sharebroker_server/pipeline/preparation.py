"""Prepares a run of a project: what is checked before Spark starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sharebroker_server.pipeline import project as projects
from sharebroker_server.pipeline.core.definition import ROWS, TABLES
from sharebroker_server.pipeline.run_folder import RunFolder
from sharebroker_server.pipeline.server_settings import settings_of
from sharebroker_server.pipeline.spark_process import find_spark


class Preparation:
    """A run before its start: its project, which is valid, its folder, and what the server answers."""

    def __init__(
        self, project: str, topic: str | None, group: str | None, watch: Sequence[str], spark: Path | None,
        server: str,
    ) -> None:  # fmt: skip
        """`topic` and `group` replace those of the project. Raises ProjectError, NoSparkError."""
        self.environment = find_spark(spark)
        self._name = project
        self._folder = projects.folder_of(project)
        self._content, definition = projects.read(self._folder, topic=topic, group=group)
        self._server, self._watch, self._definition = server, watch, definition
        self.facts = {"topic": definition.topic, "group": definition.group}
        self.rows: dict[str, Any] = definition.rows()
        self.spark_settings = definition.spark

    def data_folder(self, given: Path | None) -> RunFolder:
        """Returns the given folder of tables, else the project's own."""
        return RunFolder(given or projects.data_folder(self._name, self._folder))

    def replayed(self) -> list[str]:
        """Returns the arguments that make the tables of rows again, and update all others."""
        others = [name for name in (*TABLES, *self._definition.tables) if name not in ROWS]
        return ["--full-refresh", ",".join(ROWS), "--refresh", ",".join(others)]

    def configuration(self, records: int) -> dict[str, str]:
        """Returns the configuration for Spark, after checking topic and groups. Raises KafkaError."""
        return settings_of(self._server, self._content, self._watch, records).to_configuration()
