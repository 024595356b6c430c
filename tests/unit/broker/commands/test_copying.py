"""The result and the errors of `sharebroker backup` and `restore`."""

from __future__ import annotations

import json

import pytest
import typer

from sharebroker_server.broker.backup import Begin
from sharebroker_server.broker.commands.copying import run_copy
from sharebroker_server.broker.core.backup_contents import BackupContents, BackupError, BackupFile

CONTENTS = BackupContents([BackupFile("node.json", 1500, "0" * 64)], "0.1.0", 0.0)


async def copied(begin: Begin) -> BackupContents:
    begin(CONTENTS.size)(CONTENTS.size)
    return CONTENTS


async def failing(_begin: Begin) -> BackupContents:
    raise BackupError("The disk is a teapot.")


def test_the_progress_and_the_result_are_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    run_copy(copied, "sharebroker backup", "Backed up", as_json=False)
    shown = capsys.readouterr()
    assert "100%" in shown.err
    assert "Backed up 1,500 bytes in 1 files, as of 1970-01-01T00:00:00.000+00:00." in shown.err
    assert shown.out == ""


def test_the_result_as_json_has_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    run_copy(copied, "sharebroker backup", "Backed up", as_json=True)
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"files": 1, "bytes": 1500, "taken_at": 0.0}
    assert shown.err == ""


def test_a_failure_is_one_sentence_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        run_copy(failing, "sharebroker backup", "Backed up", as_json=False)
    assert ended.value.exit_code == 1
    assert "sharebroker backup: The disk is a teapot." in capsys.readouterr().err
