"""A pipeline's folder with tables, checkpoints, report and configuration."""

from __future__ import annotations

import fcntl
import json
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic
from typing import IO, Any, Final

_SOURCE: Final = Path(__file__).parent
_PACKAGE: Final = Path("sharebroker_server", "pipeline")
_FACTS: Final = "pipeline.json"
ARCHIVE: Final = "sharebroker-pipeline.zip"
"""The code of this service beside its packages, if executors have to receive it."""
_ROWS: Final = "rows.json"
_LOCK_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """How Spark runs: its master, the memory of its driver, where data is, and further settings.

    `storage` is a URI of tables and checkpoints; empty: the run's folder.
    """

    master: str
    memory: str
    storage: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether all of Spark runs in one process."""
        return self.master == "local" or self.master.startswith("local[")

    @property
    def facts(self) -> dict[str, str]:
        """What must not change between the runs of a folder: tables and checkpoints belong together."""
        return {"storage": self.storage.rstrip("/")} if self.storage else {}


class FolderError(Exception):
    """The folder cannot be used; the message names the remedy."""


class RunFolder:
    """A pipeline's folder. It belongs to one topic, group and storage, like its checkpoints."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.code = self.folder / "project"
        self.settings = self.folder / "spark.properties"
        self.spec = self.code / _PACKAGE / "spark-pipeline.yml"
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
            _replace(facts_file, facts)
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

    def check_rows(self, rows: Mapping[str, Any], *, replay: bool) -> None:
        """Verifies that the tables of rows were made by this definition, unless they are made again.

        Raises FolderError. The definition is noted before the first run, and after a replay is complete. In
        between none is noted: an interrupted replay has to be repeated, also with the former definition.
        """
        file = self.folder / _ROWS
        if replay:
            _replace(file, {})
        elif not file.exists():
            self.note_rows(rows)
        elif (before := json.loads(file.read_text())) != dict(rows):
            raise FolderError(
                "The format, fields, checks or columns of the project changed. With --replay they apply "
                f"to all records that {self.folder} has received."
                if before
                else f"A replay of {self.folder} is not complete. Repeat it with --replay."
            )

    def note_rows(self, rows: Mapping[str, Any]) -> None:
        """Notes the definition by which the tables of rows were made."""
        _replace(self.folder / _ROWS, rows)

    def stage(self, configuration: Mapping[str, str], spark: SparkOptions) -> None:
        """Copies the code of this service for Spark, and writes Spark's configuration."""
        for stale in (self.code, self.temporary):  # the second remains after a run was killed
            shutil.rmtree(stale, ignore_errors=True)
        self.temporary.mkdir()
        shutil.copytree(_SOURCE, self.spec.parent, ignore=shutil.ignore_patterns("__pycache__"))
        sql = {name: value for name, value in spark.settings.items() if name.startswith("spark.sql.")}
        spec = {
            "name": "sharebroker",
            "storage": self._place("checkpoints", spark),
            "libraries": [{"glob": {"include": "transformations/**"}}],
            "configuration": {
                "spark.sql.shuffle.partitions": "4",  # small tables need few
                "spark.sql.session.timeZone": "UTC",
                **sql,
                **configuration,
            },
        }
        self.spec.write_text(json.dumps(spec, indent=1))  # JSON is YAML
        if not spark.is_local:
            self._pack()
        values = {name: value.replace("\\", "\\\\") for name, value in self._spark(spark).items()}
        lines = [f"{name} {value}\n" for name, value in values.items()]  # a file of Java's properties
        self.settings.write_text("".join(lines))

    def _place(self, name: str, spark: SparkOptions) -> str:
        return f"{spark.storage.rstrip('/')}/{name}" if spark.storage else (self.folder / name).as_uri()

    def _spark(self, spark: SparkOptions) -> dict[str, str]:
        """Returns a configuration with a persistent catalog (Hive on Derby) and no local files outside the
        folder.
        """
        jdbc = f"jdbc:derby:;databaseName={self.folder / 'metastore'};create=true"
        scratch = {"spark.local.dir": str(self.temporary)} if spark.is_local else {}
        return {
            "spark.master": spark.master,
            "spark.driver.memory": spark.memory,
            "spark.driver.extraJavaOptions": f'-XX:+UseSerialGC "-Dderby.system.home={self.folder}" '
            f'"-Djava.io.tmpdir={self.temporary}"',
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": self._place("tables", spark),
            "spark.hadoop.javax.jdo.option.ConnectionURL": jdbc,
            # Tables that are computed again may have other columns.
            "spark.hadoop.hive.metastore.disallow.incompatible.col.type.changes": "false",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            **scratch,
            **spark.settings,
        }

    def _pack(self) -> None:
        """Packs the staged code for the executors of a cluster, which import what tasks run."""
        with zipfile.ZipFile(self.code / ARCHIVE, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.mkdir(str(_PACKAGE.parent))  # packages without an __init__.py are found by this entry
            for path in sorted(self.spec.parent.rglob("*")):
                packed.write(path, path.relative_to(self.code))


def _replace(file: Path, content: Mapping[str, Any]) -> None:
    """Writes a file of JSON in one step: a run may be killed at any time."""
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps(dict(content)))
    temporary.replace(file)
