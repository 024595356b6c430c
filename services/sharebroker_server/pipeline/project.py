"""A pipeline's folder with tables, checkpoints, report and configuration, and its settings."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from threading import Event
from time import monotonic
from typing import IO, Any, Final

PREFIX: Final = "sharebroker.pipeline."
DEFAULT_LIMIT: Final = 5
"""Kafka's share.delivery.count.limit."""
_HEX: Final = "hex:"
"""Values are encoded, because Spark redacts values that look like secrets, such as a topic
`password-changes`.
"""

_SOURCE: Final = Path(__file__).parent
_SPEC: Final = "spark-pipeline.yml"
_FACTS: Final = "pipeline.json"
_LOCK_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the definitions, passed in the Spark session's configuration.

    Server, topic, group, groups whose state is verified (empty: all), and delivery limits by group.
    """

    server: str
    topic: str
    group: str
    watch: str
    limits: dict[str, int]
    records_per_trigger: str

    @staticmethod
    def of(spark: Any) -> Settings:
        """Returns the settings of a session, which spark-pipeline.yml defines."""
        names = [field.name for field in fields(Settings)]
        texts: dict[str, Any] = {name: _decoded(str(spark.conf.get(PREFIX + name))) for name in names}
        return Settings(**texts | {"limits": json.loads(texts["limits"])})

    def to_configuration(self) -> dict[str, str]:
        """Returns the settings as session configuration."""
        values = asdict(self) | {"limits": json.dumps(self.limits)}
        return {PREFIX + name: _HEX + value.encode().hex() for name, value in values.items()}


def _decoded(text: str) -> str:
    return bytes.fromhex(text.removeprefix(_HEX)).decode() if text.startswith(_HEX) else text


class FolderError(Exception):
    """The folder cannot be used; the message names the remedy."""


class Project:
    """A pipeline's folder. It belongs to one topic and group, like its checkpoints."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.code = self.folder / "project"
        self.settings = self.folder / "conf"
        self.spec = self.code / "sharebroker_server" / "pipeline" / _SPEC
        self.report = self.folder / "report"
        self.log = self.folder / "spark.log"
        self.temporary = self.folder / "temporary"

    @contextmanager
    def locked(self, facts: Mapping[str, str]) -> Iterator[int]:
        """Locks the folder; `facts` describe its purpose.

        Raises FolderError, OSError.
        """
        facts_file = self.folder / _FACTS
        if facts_file.exists() and (before := json.loads(facts_file.read_text())) != dict(facts):
            owner = ", ".join(f"{name} {value}" for name, value in before.items())
            raise FolderError(
                f"{self.folder} belongs to {owner}, and so do its checkpoints. Choose another with --folder."
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            self._lock(lock)
            facts_file.write_text(json.dumps(dict(facts)))
            try:
                yield lock.fileno()
            finally:
                shutil.rmtree(self.temporary, ignore_errors=True)

    def _lock(self, lock: IO[str]) -> None:
        """Waits for the lock: Spark inherits it, and takes a moment to stop after its command was killed."""
        until = monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if monotonic() > until:
                    raise FolderError(f"Another run uses {self.folder}; wait until it ends.") from None
                Event().wait(_POLL_SECONDS)
            else:
                return

    def stage(self, configuration: Mapping[str, str], master: str, memory: str) -> None:
        """Copies the code of this service for Spark, and writes Spark's configuration."""
        for stale in (self.code, self.temporary):  # the second remains after a run was killed
            shutil.rmtree(stale, ignore_errors=True)
        self.temporary.mkdir()
        target = self.spec.parent
        shutil.copytree(_SOURCE, target, ignore=shutil.ignore_patterns("__pycache__"))
        spec = (_SOURCE / _SPEC).read_text()
        self.spec.write_text(filled(spec, (self.folder / "checkpoints").as_uri(), configuration))
        self.settings.mkdir(exist_ok=True)
        lines = [f"{name} {value}\n" for name, value in self._spark(master, memory).items()]
        (self.settings / "spark-defaults.conf").write_text("".join(lines))

    def _spark(self, master: str, memory: str) -> dict[str, str]:
        """Returns a configuration with a persistent catalog (Hive on Derby) and no files outside
        the folder.
        """
        jdbc = f"jdbc:derby:;databaseName={self.folder / 'metastore'};create=true"
        return {
            "spark.master": master,
            "spark.driver.memory": memory,
            "spark.driver.extraJavaOptions": f'-XX:+UseSerialGC "-Dderby.system.home={self.folder}" '
            f'"-Djava.io.tmpdir={self.temporary}"',
            "spark.local.dir": str(self.temporary),
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": (self.folder / "tables").as_uri(),
            "spark.hadoop.javax.jdo.option.ConnectionURL": jdbc,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }


def filled(spec: str, storage: str, configuration: Mapping[str, str]) -> str:
    """Returns the specification with these values. Raises KeyError for an unknown name.

    JSON strings are valid YAML strings.
    """
    values = {"storage": storage, **{f"  {name}": value for name, value in configuration.items()}}
    lines = spec.splitlines()
    for name, value in values.items():
        numbers = [number for number, line in enumerate(lines) if line.startswith(f"{name}: ")]
        if len(numbers) != 1:
            raise KeyError(name.strip())
        lines[numbers[0]] = f"{name}: {json.dumps(value)}"
    return "\n".join(lines) + "\n"
