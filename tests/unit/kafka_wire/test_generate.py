"""The table of schemas is the one that the generator makes of kio's."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_server.kafka_wire import generate


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
