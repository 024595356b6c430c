"""Spark's environment, and the progress in Spark's output."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharebroker_server.pipeline.run_folder import RunFolder
from sharebroker_server.pipeline.spark_process import (
    NoSparkError,
    PipelineError,
    SparkProgram,
    SparkRun,
    cause,
    find_spark,
    run_spark,
    variables,
)


def environment(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()
    (folder / ".ready").touch()
    (folder / "spark-home").mkdir()
    return folder


def test_existing_environment_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = environment(tmp_path / ".venv-spark")
    assert find_spark(spark) == spark
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.prefix", str(tmp_path / "nowhere" / ".venv"))
    assert find_spark(None) == spark
    (spark / ".ready").unlink()
    with pytest.raises(NoSparkError, match="`make spark` installs it"):
        find_spark(None)


def test_environment_variables_are_not_inherited(tmp_path: Path) -> None:
    inherited = {
        "PYTHONPATH": "/here",
        "VIRTUAL_ENV": "/v",
        "SPARK_REMOTE": "sc://x",
        "SPARK_CONF_DIR": "/etc/spark",
        "JAVA_HOME": "/j",
        "A": "b",
    }
    folder = RunFolder(tmp_path)
    found = variables(tmp_path, folder, inherited)
    assert (found["A"], found["JAVA_HOME"], found["PYTHONPATH"]) == ("b", "/j", str(folder.code))
    assert not {"VIRTUAL_ENV", "SPARK_REMOTE", "SPARK_CONF_DIR"} & found.keys()


def test_settings_of_the_folder_are_passed_whatever_its_name(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "a folder's")
    arguments = shlex.split(variables(tmp_path, folder, {})["PYSPARK_SUBMIT_ARGS"])
    assert arguments == ["--properties-file", str(folder.settings), "pyspark-shell"]


def test_class_data_archive_is_used_where_the_environment_has_one(tmp_path: Path) -> None:
    inherited = {"JDK_JAVA_OPTIONS": "-Xint"}
    assert variables(tmp_path, RunFolder(tmp_path), inherited)["JDK_JAVA_OPTIONS"] == "-Xint"
    (tmp_path / "classes.jsa").touch()
    found = shlex.split(variables(tmp_path, RunFolder(tmp_path), inherited)["JDK_JAVA_OPTIONS"])
    assert found[0] == "-Xint"
    assert found[-1] == f"-XX:SharedArchiveFile={tmp_path}/classes.jsa"


def test_driver_of_a_cluster_is_reachable_and_executors_have_their_python(tmp_path: Path) -> None:
    inherited, folder = {"JAVA_HOME": "/j", "PYSPARK_PYTHON": "/usr/bin/python3"}, RunFolder(tmp_path)
    local, remote = (variables(tmp_path, folder, inherited, local=local) for local in (True, False))
    assert (local["SPARK_LOCAL_IP"], local["PYSPARK_PYTHON"]) == ("127.0.0.1", f"{tmp_path}/bin/python")
    assert "SPARK_LOCAL_IP" not in remote
    assert remote["PYSPARK_PYTHON"] == "/usr/bin/python3"


OUTPUT = """\
2026-01-01 08:00:00: Creating Spark session...
2026-01-01 08:00:01: Registering graph elements...
2026-01-01 08:00:02: Starting run...
2026-01-01 08:00:03: Flow spark_catalog.default.gold is QUEUED.
2026-01-01 08:00:03: Flow spark_catalog.default.bronze is STARTING.
""".splitlines()


def test_run_reports_its_stages_in_order() -> None:
    run, stages = SparkRun(), []
    for line in OUTPUT:
        run.parse_line(line)
        stages.append(run.stage)
    assert stages == ["starting Spark", "reading the definitions", "planning", "planning", "planning"]
    assert (run.done, sorted(run.flows), run.working) == (0, ["bronze", "gold"], False)
    for name in ("bronze", "silver", "gold"):
        run.parse_line(f"[Stage 1:> ] 2026-01-01 08:00:04: Flow spark_catalog.default.{name} is RUNNING.")
    assert (run.stage, run.working) == ("gold, bronze …", True)
    run.parse_line("2026-01-01 08:00:05: Flow spark_catalog.default.silver has COMPLETED.")
    assert run.done == 1
    run.parse_line("2026-01-01 08:00:05: Flow 'spark_catalog.default.gold' has FAILED more than 2 times.")
    run.parse_line("2026-01-01 08:00:06: Flow spark_catalog.default.bronze has COMPLETED.")
    assert (run.done, run.failed) == (2, ["gold"])
    run.parse_line("2026-01-01 08:00:07: Run is COMPLETED.")
    assert (run.stage, run.error) == ("done", "")


def test_queries_that_spark_cannot_resolve_have_failed() -> None:
    run = SparkRun()
    run.parse_line("2026-01-01 08:00:05: Failed to resolve flow: 'spark_catalog.default.gold'.")
    run.parse_line("2026-01-01 08:00:05: Failed to resolve flow: 'report_hours'.")
    assert run.failed == ["gold", "report_hours"]


def test_error_is_stored() -> None:
    run = SparkRun()
    run.parse_line("pyspark.errors.exceptions.connect.AnalysisException: [NO_SUCH] There is none.")
    assert run.error == "AnalysisException: [NO_SUCH] There is none."


def test_last_cause_in_the_log_is_returned() -> None:
    log = "java.lang.Exception: first\n  at x\nsharebroker_spark.driver.LeaseLostError: Lost 8 records.\n"
    assert cause(log) == "Lost 8 records."
    assert cause("all is well") == ""


LAUNCHER = """
import os, sys
print("Flow spark_catalog.default.bronze is RUNNING.", flush=True)
print("lock", os.fstat(int(os.environ["LOCK"])).st_ino, flush=True)
print(os.environ["TMPDIR"], *sys.argv[1:], flush=True)
if sys.argv[3] == "dry-run":
    sys.stderr.write("sharebroker_spark.driver.LeaseLostError: Lost 8 records.\\n")
    print("Flow spark_catalog.default.bronze has FAILED.", flush=True)
    sys.exit(3)
if os.environ.get("HANG"):
    import time; time.sleep(60)
"""


class Harness:
    """A folder whose launcher is a script, in an environment with this interpreter."""

    def __init__(self, folder: Path) -> None:
        self.spark = folder / "spark"
        (self.spark / "bin").mkdir(parents=True)
        (self.spark / "bin" / "python").symlink_to(sys.executable)
        self.folder = RunFolder(folder / "folder")
        package = self.folder.code / "sharebroker_server" / "pipeline"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "launcher.py").write_text(LAUNCHER)
        self.lock = (folder / "lock").open("w")
        self.stages: list[tuple[str, int]] = []

    def run(self, command: str) -> None:
        run_spark(self.program(command), self.show)

    def program(self, command: str) -> SparkProgram:
        return SparkProgram(self.spark, self.folder, self.lock.fileno(), [command])

    def show(self, run: SparkRun) -> None:
        self.stages.append((run.stage, len(run.flows)))

    @property
    def log(self) -> list[str]:
        return self.folder.log.read_text().splitlines()


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    made = Harness(tmp_path)
    monkeypatch.setenv("LOCK", str(made.lock.fileno()))
    yield made
    made.lock.close()


def test_progress_is_shown_after_every_line(harness: Harness) -> None:
    harness.run("run")
    assert harness.stages == [("bronze", 1)] * 3


def test_output_is_kept_in_the_log(harness: Harness) -> None:
    harness.run("run")
    folder = harness.folder
    assert harness.log[0] == "Flow spark_catalog.default.bronze is RUNNING."
    assert harness.log[2] == f"{folder.temporary} {folder.spec} {folder.report} run"


def test_spark_inherits_the_lock_of_the_folder(harness: Harness) -> None:
    harness.run("run")
    assert harness.log[1] == f"lock {os.fstat(harness.lock.fileno()).st_ino}"


def test_failed_run_names_table_cause_and_log(harness: Harness) -> None:
    with pytest.raises(PipelineError) as failed:
        harness.run("dry-run")
    assert str(failed.value) == (
        f"The pipeline failed in bronze: Lost 8 records. (log: {harness.folder.log}). "
        "Run it again to continue from its checkpoints."
    )


def test_interrupted_run_ends_all_processes(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANG", "1")
    began = time.monotonic()

    def interrupt(run: SparkRun) -> None:
        if len(harness.log) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_spark(harness.program("run"), interrupt)
    assert time.monotonic() - began < 30
