"""The fields that a topic's first values have, by their format."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from sharebroker_server.pipeline import sampling
from sharebroker_server.pipeline.core.proposal import ARROW_START, json_objects
from sharebroker_server.pipeline.project import ProjectError
from sharebroker_server.pipeline.sampling import fields_of


def found(*values: bytes, schema: str | None = None) -> tuple[str, dict[str, str]]:
    return fields_of(values, json_objects(values), [] if schema is None else [schema])


def test_json_objects_have_the_fields_of_all() -> None:
    assert found(b'{"a": 1}', b"no", b'{"b": "x"}') == ("json", {"a": "BIGINT", "b": "STRING"})


def test_avro_has_the_fields_of_the_given_schema() -> None:
    schema = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
    assert found(b"\x02", schema=schema) == ("avro", {"a": "INT NOT NULL"})
    with pytest.raises(ProjectError, match="not a record"):
        found(schema="{}")


@pytest.mark.parametrize(
    ("values", "text"), [((), "do not exist yet"), ((b"\x02\x00",), "neither JSON objects nor Arrow streams")]
)
def test_other_values_need_a_schema(values: tuple[bytes, ...], text: str) -> None:
    with pytest.raises(ProjectError, match=f"{text}.*--avro-schema FILE"):
        found(*values)


@pytest.mark.parametrize(
    ("code", "output", "errors"),
    [(0, b'{"id": "bigint NOT NULL"}', b""), (1, b"", b"Trace\nArrowInvalid: x")],
)
def test_fields_of_arrow_streams_are_read_in_sparks_environment(
    monkeypatch: pytest.MonkeyPatch, code: int, output: bytes, errors: bytes
) -> None:
    asked: list[Any] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        asked.append((command, options["input"]))
        return subprocess.CompletedProcess(command, code, output, errors)

    monkeypatch.setattr(sampling, "find_spark", lambda _: Path("/spark"))
    monkeypatch.setattr(subprocess, "run", run)
    if code:
        with pytest.raises(ProjectError, match="cannot be read: ArrowInvalid: x"):
            found(ARROW_START)
    else:
        assert found(ARROW_START + b"rest") == ("arrow", {"id": "bigint NOT NULL"})
    ((command, given),) = asked
    assert command[0] == "/spark/bin/python"
    assert given.startswith(ARROW_START)
