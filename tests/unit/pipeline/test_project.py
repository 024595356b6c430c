"""Projects as folders: found, read with the files that they name, or refused with the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_server.pipeline import project
from sharebroker_server.pipeline.core.definition import TABLES
from sharebroker_server.pipeline.project import ProjectError, data_folder, folder_of, read

MINIMAL = 'topic = "orders"\n[value.fields]\nid = "BIGINT NOT NULL"\n'


def written(folder: Path, text: str, **files: str) -> Path:
    (folder / "pipeline.toml").write_text(text)
    for name, content in files.items():
        (folder / name).write_text(content)
    return folder


def test_minimal_project_has_defaults(tmp_path: Path) -> None:
    _, definition = read(written(tmp_path, MINIMAL))
    assert (definition.topic, definition.group, definition.value.format) == ("orders", "pipeline", "json")
    assert (definition.checks, definition.tables, definition.report) == ({}, {}, {})


def test_named_files_are_part_of_the_content(tmp_path: Path) -> None:
    text = MINIMAL.replace("[value.fields]", '[value]\nformat = "avro"\navro_schema = "v"\n[value.fields]')
    text += '[tables.gold_all]\ncomment = "All."\nfile = "q"\n[report.all]\ntitle = "All"\nfile = "q"\n'
    content, definition = read(written(tmp_path, text, v='{"type": "record"}', q="SELECT 1"))
    assert definition.tables["gold_all"].query == definition.report["all"].query == "SELECT 1"
    assert content["value"]["avro_schema"] == '{"type": "record"}'
    assert "file" not in content["tables"]["gold_all"]


def test_schemas_by_id_are_files(tmp_path: Path) -> None:
    value = '[value]\nformat = "avro"\nframing = "confluent"\navro_schema = { 7 = "a", 12 = "b" }\n'
    text = MINIMAL.replace("[value.fields]", f"{value}[value.fields]")
    _, definition = read(written(tmp_path, text, a='"int"', b='"long"'))
    assert definition.value.avro_schema == {"7": '"int"', "12": '"long"'}
    with pytest.raises(ProjectError, match=r"none\.avsc cannot be read"):
        read(written(tmp_path, text.replace('"b"', '"none.avsc"')))


def test_options_replace_topic_and_group_in_the_content(tmp_path: Path) -> None:
    content, definition = read(written(tmp_path, MINIMAL), topic="old-orders", group=None)
    assert (definition.topic, content["topic"], definition.group) == ("old-orders", "old-orders", "pipeline")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topic = ", r"pipeline\.toml is not TOML: Invalid value"),
        ('topic = "orders"', "value: Field required"),
        (MINIMAL + '[tables.gold_all]\ncomment = "All."\nfile = "none.sql"', "none.sql cannot be read"),
        (MINIMAL + '[report.all]\ntitle = "All"\nfile = "a\\u0000"', "embedded null byte"),
        (f"topic = {'[' * 100_000}", "is not TOML"),
        (MINIMAL + "[sources]", "sources: there is no such setting"),
    ],
)
def test_invalid_project_is_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ProjectError, match=message):
        read(written(tmp_path, text))


def test_large_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "_MAX_BYTES", 10)
    with pytest.raises(ProjectError, match=r"pipeline.toml is larger than 10 bytes"):
        read(written(tmp_path, MINIMAL))


def test_folder_without_a_project_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match=r"sharebroker pipeline init TOPIC.*example:flights"):
        folder_of(str(tmp_path))
    with pytest.raises(ProjectError, match=r"absent has no pipeline\.toml"):
        folder_of("example:absent")


def test_tables_are_inside_the_project_unless_it_is_an_example(tmp_path: Path) -> None:
    folder = folder_of(str(written(tmp_path, MINIMAL)))
    assert data_folder(str(tmp_path), folder) == tmp_path / "data"
    assert data_folder("example:flights", folder_of("example:flights")) == Path("data", "flights")


def test_example_of_flights_is_valid() -> None:
    _, definition = read(folder_of("example:flights"))
    assert definition.topic == "flights"
    assert definition.tables.keys() == {f"gold_delay_by_{name}" for name in ("carrier", "route", "hour")}
    assert not definition.tables.keys() & {*TABLES}
    assert all(section.chart for section in definition.report.values())
