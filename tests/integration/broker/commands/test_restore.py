"""`sharebroker restore`: a damaged backup and a folder with data are rejected with a sentence."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from sharebroker.cli.app import app
from sharebroker_server.broker.backup import CONTENTS
from sharebroker_server.broker.commands.restore import EXAMPLES

RUNNER = CliRunner()


def test_examples_name_the_command() -> None:
    assert all(example.startswith("sharebroker restore ") for example in EXAMPLES)


def test_a_folder_without_a_backup_is_rejected(tmp_path: Path) -> None:
    done = RUNNER.invoke(app, ["restore", str(tmp_path), "--data", str(tmp_path / "new")])
    assert done.exit_code == 1
    assert "contains no complete backup" in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_damaged_backup_is_rejected_as_json(tmp_path: Path) -> None:
    (tmp_path / CONTENTS).write_text("{")
    done = RUNNER.invoke(app, ["restore", str(tmp_path), "--data", str(tmp_path / "new"), "--json"])
    assert done.exit_code == 1
    assert "is damaged" in json.loads(done.stderr)["message"]
