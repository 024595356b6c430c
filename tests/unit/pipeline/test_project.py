"""The folder of a pipeline, and where Spark's environment is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_server.pipeline import project as projects
from sharebroker_server.pipeline.environment import NoSparkError, find_spark, variables
from sharebroker_server.pipeline.project import FolderError, Project
from sharebroker_server.pipeline.settings import Settings

FACTS = {"topic": "flights", "group": "g"}
SETTINGS = Settings("h:1", "flights", "g", "", {}, "9")


def environment(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()
    (folder / ".ready").touch()
    (folder / "spark-home").mkdir()
    return folder


def test_an_environment_that_is_there_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = environment(tmp_path / ".venv-spark")
    assert find_spark(spark) == spark
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.prefix", str(tmp_path / "nowhere" / ".venv"))
    assert find_spark(None) == spark
    (spark / ".ready").unlink()
    with pytest.raises(NoSparkError, match="`make spark` installs it"):
        find_spark(None)


def test_nothing_of_this_environment_is_handed_on(tmp_path: Path) -> None:
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


def test_what_spark_gets_is_this_service_alone(tmp_path: Path) -> None:
    project = Project(tmp_path / "a folder")
    with project.locked(FACTS):
        project.stage(SETTINGS.to_configuration(), "local[1]", "512m")
        project.stage(SETTINGS.to_configuration(), "local[3]", "1g")
    assert [path.name for path in (project.code / "sharebroker_server").iterdir()] == ["pipeline"]
    assert f'sharebroker.pipeline.server: "hex:{b"h:1".hex()}"' in project.spec.read_text()
    assert "/a%20folder/checkpoints" in project.spec.read_text()
    assert "spark.master local[3]\n" in (project.settings / "spark-defaults.conf").read_text()


def test_what_spark_leaves_behind_goes_with_the_run_or_before_the_next(tmp_path: Path) -> None:
    project = Project(tmp_path)
    left = project.temporary / "blockmgr-1"
    with project.locked(FACTS):
        project.stage(SETTINGS.to_configuration(), "local[1]", "512m")
        left.mkdir()
        assert (
            f"spark.local.dir {project.temporary}\n" in (project.settings / "spark-defaults.conf").read_text()
        )
    assert not project.temporary.exists()
    left.mkdir(parents=True)  # of one that was killed
    with project.locked(FACTS):
        project.stage(SETTINGS.to_configuration(), "local[1]", "512m")
        assert list(project.temporary.iterdir()) == []


def test_a_folder_is_of_one_topic_and_group(tmp_path: Path) -> None:
    project = Project(tmp_path)
    for _ in range(2):
        with project.locked(FACTS):
            pass
    with (
        pytest.raises(FolderError, match="belongs to topic flights, group g"),
        project.locked(FACTS | {"group": "h"}),
    ):
        pass


def test_two_runs_do_not_work_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projects, "_LOCK_SECONDS", 0.0)
    with (
        Project(tmp_path).locked(FACTS),
        pytest.raises(FolderError, match="Another run uses"),
        Project(tmp_path).locked(FACTS),
    ):
        pass
