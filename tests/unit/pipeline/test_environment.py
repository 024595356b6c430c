"""Spark's environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_server.pipeline.environment import NoSparkError, find_spark, variables


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
