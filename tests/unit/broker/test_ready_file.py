"""The file of `--ready-file`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.broker.ready_file import ReadyFile


def test_ready_file_exists_only_while_the_server_serves(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    path.write_text("of a dead process")
    file = ReadyFile(path)
    file.prepare()
    assert list(tmp_path.iterdir()) == []
    file.write({"port": 9090})
    assert list(tmp_path.iterdir()) == [path]
    assert json.loads(path.read_bytes()) == {"port": 9090}
    file.remove()
    file.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_be_written_is_invalid(tmp_path: Path) -> None:
    for path in (tmp_path / "missing" / "ready.json", tmp_path):
        with pytest.raises(KafkaError, match="cannot be written"):
            ReadyFile(path).prepare()


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = ReadyFile(None)
    file.prepare()
    file.write({"port": 9090})
    file.remove()
    assert list(tmp_path.iterdir()) == []
