"""The table of schemas is the one that the generator makes of kio's and the newer versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sharebroker_server.kafka_wire import generate
from sharebroker_server.kafka_wire.generate import Newer, add_newer
from sharebroker_server.kafka_wire.schema import api_schema


@pytest.mark.slow
def test_the_table_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["generate", "--check"])
    assert generate.main() == 0


def test_an_outdated_table_fails_the_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "messages.json"
    monkeypatch.setattr(generate, "TABLE", table)
    monkeypatch.setattr(generate, "STUB", tmp_path / "messages.pyi")
    monkeypatch.setattr(generate, "APIS", (18,))  # all of them are slow
    monkeypatch.setattr("sys.argv", ["generate"])
    assert generate.main() == 0
    current = table.read_bytes()
    table.write_bytes(current + b" ")
    monkeypatch.setattr("sys.argv", ["generate", "--check"])
    assert generate.main() == 1
    assert "messages.json is not current" in capsys.readouterr().err
    table.write_bytes(current)
    assert generate.main() == 0


def field(name: str, first: int, last: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "int32", "versions": [first, last], **more}


def api() -> dict[str, Any]:
    topics = {"name": "Topic", "fields": [field("name", 0, 2, nullable=[1, 2]), field("index", 0, 2)]}
    request = {"name": "Request", "fields": [field("gone", 0, 1), field("topics", 0, 2, struct=topics)]}
    response = {"name": "Response", "fields": []}
    return {"name": "Api", "versions": [0, 2], "request": request, "response": response}


def test_a_newer_version_continues_the_fields_except_removed_ones() -> None:
    extended = api()
    added = {"name": "topic_id", "type": "uuid", "nullable": True, "default": None}
    add_newer(
        extended, Newer(3, {"request.topics.name": (added,)}, removed=frozenset({"request.topics.name"}))
    )
    gone, topics = extended["request"]["fields"]
    assert (extended["versions"], gone["versions"], topics["versions"]) == ([0, 3], [0, 1], [0, 3])
    name, topic_id, index = topics["struct"]["fields"]
    assert (name["versions"], name["nullable"], index["versions"]) == ([0, 2], [1, 2], [0, 3])
    assert topic_id == {
        "name": "topic_id",
        "type": "uuid",
        "versions": [3, 3],
        "nullable": [3, 3],
        "default": None,
    }


def test_a_version_that_does_not_follow_the_last_one_is_rejected() -> None:
    with pytest.raises(ValueError, match="Api has versions to 2, before 2"):
        add_newer(api(), Newer(2, {}))


@pytest.mark.parametrize(
    ("key", "version", "request_fields", "response_fields"),
    [
        (18, 5, {"cluster_id", "node_id"}, set()),
        (28, 6, {"topic_id"}, {"topic_id"}),
        (42, 3, set(), {"error_message"}),
    ],
)
def test_newer_versions_have_the_fields_of_kafka_4_4(
    key: int, version: int, request_fields: set[str], response_fields: set[str]
) -> None:
    schema = api_schema(key)
    assert schema.versions[1] == version
    for message, expected in ((schema.request, request_fields), (schema.response, response_fields)):
        structs = [message, *message.descendants()]
        fields = [each for struct in structs for each in struct.fields]
        assert {each.name for each in fields if each.versions == (version, version)} == expected
