"""`sharebroker pipeline init`: the files of a project for a topic."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sharebroker_server.pipeline import sampling
from sharebroker_server.pipeline.command import app
from sharebroker_server.pipeline.project import folder_of, read

VALUES = [
    b'{"id": %d, "state": "%s", "_offset": 1}' % (number, b"ab"[number % 2 :][:1]) for number in range(8)
]
SCHEMA = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'


@pytest.fixture(autouse=True)
def _topic(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def first_values(server: str, topic: str, records: int) -> list[bytes]:
        return VALUES

    monkeypatch.setattr(sampling, "first_values", first_values)
    monkeypatch.chdir(tmp_path)


def init(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["init", "orders", *arguments])


def test_project_is_written_and_valid(tmp_path: Path) -> None:
    ran = init()
    assert ran.exit_code == 0, ran.output
    _, definition = read(folder_of(str(tmp_path / "orders")))
    assert (definition.topic, definition.group) == ("orders", "orders-pipeline")
    assert definition.value.fields == {"id": "BIGINT NOT NULL", "state": "STRING NOT NULL"}
    assert "'_offset' cannot be a column" in ran.output
    assert "round(avg(`id`), 2) AS `mean_id`" in definition.tables["gold_by_group"].query


def test_avro_schema_is_a_file_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "given.avsc").write_text(SCHEMA)
    assert init("--project", "p", "--group", "g", "--avro-schema", "given.avsc").exit_code == 0
    _, definition = read(folder_of("p"))
    value = definition.value
    assert (definition.group, value.format, value.framing) == ("g", "avro", "none")
    assert value.avro_schema == SCHEMA


def test_avro_schemas_have_the_ids_that_precede_values(tmp_path: Path) -> None:
    (tmp_path / "old.avsc").write_text(SCHEMA)
    (tmp_path / "new.avsc").write_text(SCHEMA.replace("}]", '}, {"name": "b", "type": "int"}]'))
    options = ("--confluent", "--avro-schema", "7=old.avsc", "--avro-schema", "12=new.avsc")
    assert init(*options).exit_code == 0
    _, definition = read(folder_of("orders"))
    value = definition.value
    assert value.framing == "confluent"
    assert isinstance(value.avro_schema, dict)
    assert value.avro_schema["7"] == SCHEMA
    assert value.avro_schema.keys() == {"7", "12"}
    assert value.fields == {"a": "INT NOT NULL", "b": "INT"}


def test_schema_without_the_id_of_the_values_is_refused(tmp_path: Path) -> None:
    (tmp_path / "given.avsc").write_text(SCHEMA)
    ran = init("--confluent", "--avro-schema", "given.avsc")
    assert ran.exit_code == 2
    assert "first values have no schema id" in ran.output
    assert not (tmp_path / "orders").exists()


@pytest.mark.parametrize(
    ("content", "text"), [(None, "given.avsc"), (b"\xff", "the Avro schema is not a record")]
)
def test_schema_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None, text: str) -> None:
    if content is not None:
        (tmp_path / "given.avsc").write_bytes(content)
    ran = init("--avro-schema", "given.avsc")
    assert ran.exit_code == 2
    assert text in ran.output
    assert not (tmp_path / "orders").exists()


def test_existing_project_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "pipeline.toml").write_text("mine")
    ran = init()
    assert ran.exit_code == 2
    assert "exists; choose another folder with --project" in ran.output
    assert (tmp_path / "orders" / "pipeline.toml").read_text() == "mine"


def test_other_files_that_exist_are_kept(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / ".gitignore").write_text("mine")
    assert init().exit_code == 0
    assert (tmp_path / "orders" / ".gitignore").read_text() == "mine"
