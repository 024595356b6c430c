"""The folder of a pipeline: its tables, checkpoints and report, and what Spark is told."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import monotonic
from typing import IO, Final

from sharebroker_server.pipeline.core.spec import filled

_SOURCE: Final = Path(__file__).parent
_SPEC: Final = "spark-pipeline.yml"
_FACTS: Final = "pipeline.json"
_PATIENCE: Final = 60.0
_LOOK_AGAIN: Final = 0.25


class FolderError(Exception):
    """The folder cannot be used; the message says what to do."""


class Project:
    """A pipeline's folder. It belongs to one topic and group: the checkpoints are theirs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.code = self.folder / "project"
        self.settings = self.folder / "conf"
        self.spec = self.code / "sharebroker_server" / "pipeline" / _SPEC
        self.report = self.folder / "report"
        self.log = self.folder / "spark.log"
        self.temporary = self.folder / "temporary"

    @contextmanager
    def held(self, facts: Mapping[str, str]) -> Iterator[int]:
        """Have the folder for oneself by a locked file; `facts` is what it is for.

        Raises FolderError, OSError.
        """
        kept = self.folder / _FACTS
        if kept.exists() and (before := json.loads(kept.read_text())) != dict(facts):
            of = ", ".join(f"{name} {value}" for name, value in before.items())
            text = f"{self.folder} is of {of}: its checkpoints fit nothing else. Name another with --folder."
            raise FolderError(text)
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            self._lock(lock)
            kept.write_text(json.dumps(dict(facts)))
            try:
                yield lock.fileno()
            finally:
                shutil.rmtree(self.temporary, ignore_errors=True)

    def _lock(self, lock: IO[str]) -> None:
        """Spark has the lock, too: one whose command was killed takes a moment to end."""
        until = monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if monotonic() > until:
                    raise FolderError(f"Another run works in {self.folder}; wait for its end.") from None
                Event().wait(_LOOK_AGAIN)
            else:
                return

    def stage(self, configuration: Mapping[str, str], master: str, memory: str) -> None:
        """Lay out the code for Spark, this service alone, and what Spark is told."""
        for stale in (self.code, self.temporary):  # the latter is what a run left that was killed
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
        """A catalog that outlives the run (Hive's on Derby), and nothing outside the folder."""
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
