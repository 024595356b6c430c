"""Spark's environment, and the progress in Spark's output."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_server.pipeline.spark_process import NoSparkError, Run, cause, find_spark, variables


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
        "JAVA_HOME": "/j",
        "A": "b",
    }
    found = variables(tmp_path, tmp_path / "code", tmp_path / "conf", inherited)
    assert (found["A"], found["JAVA_HOME"], found["PYTHONPATH"]) == ("b", "/j", str(tmp_path / "code"))
    assert not {"VIRTUAL_ENV", "SPARK_REMOTE"} & found.keys()


OUTPUT = """\
2026-01-01 08:00:00: Creating Spark session...
2026-01-01 08:00:01: Registering graph elements...
2026-01-01 08:00:02: Starting run...
2026-01-01 08:00:03: Flow spark_catalog.default.gold is QUEUED.
2026-01-01 08:00:03: Flow spark_catalog.default.bronze is STARTING.
""".splitlines()


def test_a_run_goes_through_its_stages() -> None:
    run, stages = Run(), []
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


def test_an_error_is_kept() -> None:
    run = Run()
    run.parse_line("pyspark.errors.exceptions.connect.AnalysisException: [NO_SUCH] There is none.")
    assert run.error == "AnalysisException: [NO_SUCH] There is none."


def test_the_last_cause_of_a_log() -> None:
    log = "java.lang.Exception: first\n  at x\nsharebroker_spark.driver.LeaseLostError: Lost 8 records.\n"
    assert cause(log) == "Lost 8 records."
    assert cause("all is well") == ""
