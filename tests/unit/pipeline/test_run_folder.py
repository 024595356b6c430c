"""The folder of a pipeline's tables: its lock, its owner, and the files that Spark reads."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import yaml

import sharebroker_server.pipeline
from sharebroker_server.pipeline import run_folder
from sharebroker_server.pipeline.run_folder import FolderError, RunFolder, SparkOptions

FACTS = {"topic": "flights", "group": "g"}
LOCAL = SparkOptions("local[1]", "512m")
CONFIGURATION = {"sharebroker.pipeline.server": "hex:22"}
CODE = Path(sharebroker_server.pipeline.__file__).parent


def defaults(folder: RunFolder) -> dict[str, str]:
    lines = folder.settings.read_text().splitlines()
    return {name: value for name, _, value in (line.partition(" ") for line in lines)}


def test_staged_code_contains_only_this_service(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "a folder")
    with folder.locked(FACTS):
        folder.stage(CONFIGURATION, LOCAL)
        folder.stage(CONFIGURATION, SparkOptions("local[3]", "1g"))
    assert [path.name for path in (folder.code / "sharebroker_server").iterdir()] == ["pipeline"]
    assert (defaults(folder)["spark.master"], defaults(folder)["spark.driver.memory"]) == ("local[3]", "1g")


def test_specification_has_the_configuration_and_the_place_of_checkpoints(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "a folder")
    settings = {"spark.sql.shuffle.partitions": "64", "spark.executor.memory": "2g"}
    with folder.locked(FACTS):
        folder.stage(CONFIGURATION, SparkOptions("local[1]", "512m", "", settings))
    spec = yaml.safe_load(folder.spec.read_text())
    assert spec["storage"].endswith("/a%20folder/checkpoints")
    assert spec["configuration"] == {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "64",
        **CONFIGURATION,
    }
    assert defaults(folder)["spark.executor.memory"] == "2g"


def test_backslashes_of_settings_are_escaped_for_java(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with folder.locked(FACTS):
        folder.stage(CONFIGURATION, SparkOptions("local[1]", "512m", "", {"spark.a": "b\\"}))
    assert defaults(folder)["spark.a"] == "b\\\\"  # one would continue the line


def test_storage_of_a_cluster_holds_tables_and_checkpoints(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    options = SparkOptions("spark://h:7077", "1g", "s3a://lake/orders/")
    with folder.locked(FACTS):
        folder.stage(CONFIGURATION, options)
    assert yaml.safe_load(folder.spec.read_text())["storage"] == "s3a://lake/orders/checkpoints"
    assert defaults(folder)["spark.sql.warehouse.dir"] == "s3a://lake/orders/tables"
    assert "spark.local.dir" not in defaults(folder)  # a folder of each executor's machine


@pytest.mark.parametrize(
    ("master", "local"),
    [("local", True), ("local[*]", True), ("local-cluster[2,1,512]", False), ("spark://h:7077", False)],
)
def test_only_spark_in_one_process_is_local(master: str, local: bool) -> None:
    assert SparkOptions(master, "1g").is_local is local


def test_temporary_files_are_removed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    left = folder.temporary / "blockmgr-1"
    with folder.locked(FACTS):
        folder.stage(CONFIGURATION, LOCAL)
        left.mkdir()
        assert defaults(folder)["spark.local.dir"] == str(folder.temporary)
    assert not folder.temporary.exists()
    left.mkdir(parents=True)  # of one that was killed
    with folder.locked(FACTS):
        folder.stage(CONFIGURATION, LOCAL)
        assert list(folder.temporary.iterdir()) == []


def test_folder_belongs_to_one_topic_and_group(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for _ in range(2):
        with folder.locked(FACTS):
            pass
    with (
        pytest.raises(FolderError, match="belongs to topic flights, group g"),
        folder.locked(FACTS | {"group": "h"}),
    ):
        pass


def test_folder_belongs_to_one_storage(tmp_path: Path) -> None:
    first, same, other = (SparkOptions("m", "1g", uri) for uri in ("s3a://lake/a", "s3a://lake/a/", ""))
    for options in (first, same):
        with RunFolder(tmp_path).locked(FACTS | options.facts):
            pass
    with (
        pytest.raises(FolderError, match="storage s3a://lake/a, and so do its checkpoints"),
        RunFolder(tmp_path).locked(FACTS | other.facts),
    ):
        pass


def test_folder_is_locked_by_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "_LOCK_SECONDS", 0.0)
    with (
        RunFolder(tmp_path).locked(FACTS),
        pytest.raises(FolderError, match="Another run uses"),
        RunFolder(tmp_path).locked(FACTS),
    ):
        pass


def test_changed_definition_needs_a_replay_until_one_is_complete(tmp_path: Path) -> None:
    folder, old, new = RunFolder(tmp_path), {"checks": {"a": "x > 0"}}, {"checks": {"a": "x > 1"}}
    folder.check_rows(old, replay=False)
    folder.check_rows(json.loads(json.dumps(old)), replay=False)
    with pytest.raises(FolderError, match="--replay"):
        folder.check_rows(new, replay=False)
    folder.check_rows(new, replay=True)
    for interrupted in (new, old):  # the tables have rows of both definitions
        with pytest.raises(FolderError, match=r"is not complete\. Repeat it"):
            folder.check_rows(interrupted, replay=False)
    folder.check_rows(new, replay=True)
    folder.note_rows(new)
    folder.check_rows(new, replay=False)


@pytest.mark.parametrize("file", sorted(CODE.glob("transformations/*.py")), ids=lambda file: file.stem)
def test_tables_of_the_pipeline_are_read_in_sql(file: Path) -> None:
    """A frame's `table` would be that of an earlier run, without a dependency on this one."""
    read = [
        node.func.value.attr
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "table"
        and isinstance(node.func.value, ast.Attribute)
    ]
    assert read == []  # `dp.table` is a decorator, of a name
