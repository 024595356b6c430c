"""Settings in the configuration of a Spark session."""

from __future__ import annotations

import re
from typing import Any

from sharebroker_server.pipeline.core.sql import lookup
from sharebroker_server.pipeline.settings import PREFIX, Settings

_SECRET = re.compile(r"(?i)secret|password|token|access[.]?key|credential")


def settings(name: str) -> Settings:
    project: dict[str, Any] = {"topic": name, "group": name, "value": {"fields": {"id": "BIGINT"}}}
    return Settings(f"{name}:1", project, f"{name},b", {name: 3}, 7, "2026-01-01 08:00:00")


def test_spark_redacts_no_setting() -> None:
    for name in ("password-changes", "tokens", "a-Secret", "access.key", "größe", 'top"ic'):
        given = settings(name)
        configuration = given.to_configuration()
        assert all(key.startswith(PREFIX) for key in configuration)
        assert not [text for pair in configuration.items() for text in pair if _SECRET.search(text)]
        assert Settings.of(configuration.__getitem__) == given


def test_definition_is_that_of_the_project() -> None:
    definition = settings("orders").definition
    assert (definition.topic, definition.value.fields) == ("orders", {"id": "BIGINT"})


def test_names_are_escaped_in_sql() -> None:
    assert lookup({}, "x", 5) == "5"
    assert lookup({"b": 3, "a'\\": 2}, "x", 5) == "CASE x WHEN 'a\\'\\\\' THEN 2 WHEN 'b' THEN 3 ELSE 5 END"
