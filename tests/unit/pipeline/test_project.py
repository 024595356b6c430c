"""The folder of a pipeline, its settings, and the specification with values filled in."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import sharebroker_server.pipeline
from sharebroker_server.pipeline import project as projects
from sharebroker_server.pipeline.core.sql import lookup
from sharebroker_server.pipeline.project import PREFIX, FolderError, Project, Settings, filled

FACTS = {"topic": "flights", "group": "g"}


SETTINGS = Settings("h:1", "flights", "g", "", {}, "9")


def test_staged_code_contains_only_this_service(tmp_path: Path) -> None:
    project = Project(tmp_path / "a folder")
    with project.locked(FACTS):
        project.stage(SETTINGS.to_configuration(), "local[1]", "512m")
        project.stage(SETTINGS.to_configuration(), "local[3]", "1g")
    assert [path.name for path in (project.code / "sharebroker_server").iterdir()] == ["pipeline"]
    assert f'sharebroker.pipeline.server: "hex:{b"h:1".hex()}"' in project.spec.read_text()
    assert "/a%20folder/checkpoints" in project.spec.read_text()
    assert "spark.master local[3]\n" in (project.settings / "spark-defaults.conf").read_text()


def test_temporary_files_are_removed(tmp_path: Path) -> None:
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


def test_folder_belongs_to_one_topic_and_group(tmp_path: Path) -> None:
    project = Project(tmp_path)
    for _ in range(2):
        with project.locked(FACTS):
            pass
    with (
        pytest.raises(FolderError, match="belongs to topic flights, group g"),
        project.locked(FACTS | {"group": "h"}),
    ):
        pass


def test_folder_is_locked_by_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projects, "_LOCK_SECONDS", 0.0)
    with (
        Project(tmp_path).locked(FACTS),
        pytest.raises(FolderError, match="Another run uses"),
        Project(tmp_path).locked(FACTS),
    ):
        pass


def test_settings_survive_the_session_configuration() -> None:
    settings = Settings("h:1", "password-changes", "g", "a,b", {"a": 5}, "100")
    configuration = settings.to_configuration()
    assert all(name.startswith(PREFIX) for name in configuration)
    assert not any("password" in value for value in configuration.values())
    assert Settings.of(SimpleNamespace(conf=SimpleNamespace(get=configuration.__getitem__))) == settings


FOLDER = Path(sharebroker_server.pipeline.__file__).parent


SPEC = (FOLDER / "spark-pipeline.yml").read_text()


_SECRET = re.compile(r"(?i)secret|password|token|access[.]?key|credential")


class Session:
    """A session's configuration."""

    def __init__(self, values: dict[str, str]) -> None:
        self.conf = values


def test_specification_contains_the_settings() -> None:
    settings = Settings("h:1", 'top"ic', "g", "a,b", {"a": 3}, "7")
    document = yaml.safe_load(filled(SPEC, "file:///a b", settings.to_configuration()))
    assert document["storage"] == "file:///a b"
    assert Settings.of(Session(document["configuration"])) == settings
    before = yaml.safe_load(SPEC)
    assert document["libraries"] == before["libraries"]
    assert document["configuration"].keys() == before["configuration"].keys()


def test_spark_redacts_no_setting() -> None:
    names = ("password-changes", "tokens", "a-Secret", "access.key", "größe")
    for name in names:
        settings = Settings(f"{name}:1", name, name, name, {name: 3}, "7")
        configuration = settings.to_configuration()
        assert not [text for pair in configuration.items() for text in pair if _SECRET.search(text)]
        assert Settings.of(Session(configuration)) == settings


def test_specification_template_has_default_settings() -> None:
    settings = Settings.of(Session(yaml.safe_load(SPEC)["configuration"]))
    assert settings == Settings("127.0.0.1:9090", "flights", "pipeline", "", {}, "100000")


def test_unknown_name_cannot_be_set() -> None:
    with pytest.raises(KeyError, match="nothing"):
        filled(SPEC, "s", {"nothing": "x"})


@pytest.mark.parametrize("file", sorted(FOLDER.glob("transformations/*.py")), ids=lambda file: file.stem)
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


def test_names_are_escaped_in_sql() -> None:
    assert lookup({}, "x", 5) == "5"
    assert lookup({"b": 3, "a'\\": 2}, "x", 5) == "CASE x WHEN 'a\\'\\\\' THEN 2 WHEN 'b' THEN 3 ELSE 5 END"
