"""Contexts in their file, and their addresses."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from sharebroker.cli.profiles import (
    ContextProfile,
    Contexts,
    contexts_file,
    load_contexts,
    parse_contexts,
    save_contexts,
)
from sharebroker_protocol.errors import ErrorCode, KafkaError
from tests.testkit.tables import each

PLAIN = ContextProfile("a:1")
SECURE = ContextProfile("tls://b:2?name=n", ca="/ca file", user="ada", password_file="/pw")


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "new" / "contexts.json"
    monkeypatch.setenv("SHAREBROKER_CONTEXTS", str(path))
    return path


def test_contexts_are_saved_for_the_user_alone(file: Path) -> None:
    assert load_contexts() == Contexts()
    contexts = Contexts({"x": PLAIN, "y": SECURE}, "y")
    save_contexts(contexts)
    assert load_contexts() == contexts
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["contexts.json"]


def test_file_is_in_the_config_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHAREBROKER_CONTEXTS")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/config")
    assert contexts_file() == Path("/config/sharebroker/contexts.json")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert contexts_file() == Path.home() / ".config/sharebroker/contexts.json"


def test_first_context_is_the_current_one_until_it_is_deleted() -> None:
    contexts = Contexts().with_profile("x", PLAIN).with_profile("y", SECURE)
    assert contexts.current == "x"
    assert contexts.with_current("y").without("x") == Contexts({"y": SECURE}, "y")
    assert contexts.without("x") == Contexts({"y": SECURE}, None)


def test_unknown_contexts_are_an_error() -> None:
    contexts = Contexts({"x": PLAIN, "y": SECURE})
    for use in (contexts.find, contexts.with_current, contexts.without):
        with pytest.raises(KafkaError, match="'z'; the contexts are: x, y") as failed:
            use("z")
        assert failed.value.code is ErrorCode.RESOURCE_NOT_FOUND


def test_address_has_the_files_and_the_login() -> None:
    assert PLAIN.address == "a:1"
    assert SECURE.address == "tls://b:2?name=n&ca=%2Fca%20file&user=ada&password_file=%2Fpw"
    with pytest.raises(KafkaError, match="need tls://"):
        _ = ContextProfile("a:1", user="ada").address


@each(
    "document",
    [
        [],
        {},
        {"contexts": {"x": {}}},
        {"contexts": {"x": {"server": 7}}},
        {"contexts": {"x": {"server": "a:1", "password": "p"}}},
        {"contexts": {}, "current": "x"},
    ],
)
def test_invalid_documents_are_rejected(document: Any) -> None:
    with pytest.raises(ValueError, match="context"):
        parse_contexts(document)


def test_file_that_is_not_json_is_an_error(file: Path) -> None:
    file.parent.mkdir()
    file.write_text("{")
    with pytest.raises(KafkaError, match="is not a file of contexts") as failed:
        load_contexts()
    assert failed.value.code is ErrorCode.INVALID_CONFIG
