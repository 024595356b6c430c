"""The specification with values filled in, and the rules of silver as far as they are text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

import sharebroker_server.pipeline
from sharebroker_server.pipeline.core import flights
from sharebroker_server.pipeline.core.spec import filled
from sharebroker_server.pipeline.core.sql import lookup
from sharebroker_server.pipeline.settings import Settings

FOLDER = Path(sharebroker_server.pipeline.__file__).parent
SPEC = (FOLDER / "spark-pipeline.yml").read_text()
_SECRET = re.compile(r"(?i)secret|password|token|access[.]?key|credential")
"""Spark's spark.redaction.regex, and more."""


class Session:
    """A session's configuration."""

    def __init__(self, values: dict[str, str]) -> None:
        self.conf = values


def test_the_specification_takes_the_settings() -> None:
    settings = Settings("h:1", 'top"ic', "g", "a,b", {"a": 3}, "7")
    document = yaml.safe_load(filled(SPEC, "file:///a b", settings.to_configuration()))
    assert document["storage"] == "file:///a b"
    assert Settings.of(Session(document["configuration"])) == settings
    before = yaml.safe_load(SPEC)
    assert document["libraries"] == before["libraries"]
    assert document["configuration"].keys() == before["configuration"].keys()


def test_nothing_looks_like_a_secret_to_spark() -> None:
    names = ("password-changes", "tokens", "a-Secret", "access.key", "größe")
    for name in names:
        settings = Settings(f"{name}:1", name, name, name, {name: 3}, "7")
        configuration = settings.to_configuration()
        assert not [text for pair in configuration.items() for text in pair if _SECRET.search(text)]
        assert Settings.of(Session(configuration)) == settings


def test_the_specification_as_it_stands_has_settings() -> None:
    settings = Settings.of(Session(yaml.safe_load(SPEC)["configuration"]))
    assert settings == Settings("127.0.0.1:9090", "flights", "pipeline", "", {}, "100000")


def test_what_it_does_not_have_cannot_be_set() -> None:
    with pytest.raises(KeyError, match="nothing"):
        filled(SPEC, "s", {"nothing": "x"})


@pytest.mark.parametrize("file", sorted(FOLDER.glob("transformations/*.py")), ids=lambda file: file.stem)
def test_tables_of_the_pipeline_are_read_in_sql(file: Path) -> None:
    """A frame's `table` would be the one that an earlier run left, and wait for nobody."""
    read = [
        node.func.value.attr
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "table"
        and isinstance(node.func.value, ast.Attribute)
    ]
    assert read == []  # `dp.table` is a decorator, of a name


def test_names_are_no_sql() -> None:
    assert lookup({}, "x", 5) == "5"
    assert lookup({"b": 3, "a'\\": 2}, "x", 5) == "CASE x WHEN 'a\\'\\\\' THEN 2 WHEN 'b' THEN 3 ELSE 5 END"


def test_every_field_of_a_flight_has_a_column() -> None:
    columns = [expression.rpartition(" AS ")[2] for expression in flights.typed()]
    assert columns == [*flights.TEXTS, *flights.NUMBERS, "hour"]
    assert flights.reason().startswith("CASE WHEN text IS NULL THEN 'no value' ")
    assert len(flights.rules()) == flights.reason().count(" WHEN ")
