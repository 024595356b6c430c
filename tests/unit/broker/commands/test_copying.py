"""The result and the errors of `sharebroker backup` and `restore`."""

from __future__ import annotations

import json
from functools import partial

import pytest
import structlog
import typer

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.broker.backup import Begin
from sharebroker_server.broker.commands.copying import Done, copied, run_copy
from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.broker.core.backup_contents import BackupContents, BackupError
from sharebroker_server.broker.core.listed_files import ListedFile
from sharebroker_server.leases.port import LeasesUnavailable
from sharebroker_server.stream_log.port import LogFull

CONTENTS = BackupContents([ListedFile("node.json", 1500, "0" * 64)], "0.1.0", 0.0)
DESCRIBE = partial(copied, "Backed up")


async def copy(begin: Begin) -> BackupContents:
    begin(CONTENTS.size)(CONTENTS.size)
    return CONTENTS


async def failing(_begin: Begin) -> BackupContents:
    raise BackupError("The disk is a teapot.")


def test_the_progress_and_the_result_are_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    run_copy(copy, "sharebroker backup", DESCRIBE, as_json=False)
    shown = capsys.readouterr()
    assert "100%" in shown.err
    assert "Backed up 1,500 bytes in 1 file, as of 1970-01-01T00:00:00.000+00:00." in shown.err
    assert shown.out == ""


def test_the_result_as_json_has_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    run_copy(copy, "sharebroker backup", DESCRIBE, as_json=True)
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"files": 1, "bytes": 1500, "taken_at": 0.0}
    assert shown.err == ""


def test_log_lines_are_beside_the_result_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    log = structlog.get_logger()

    async def logging_copy(begin: Begin) -> BackupContents:
        log.info("Redis reconnected")
        log.warning("Redis connection lost")
        return await copy(begin)

    run_copy(logging_copy, "sharebroker backup", DESCRIBE, as_json=True)
    shown = capsys.readouterr()
    assert json.loads(shown.out)["files"] == 1
    assert "Redis connection lost" in shown.err
    assert "reconnected" not in shown.err
    log.warning("afterwards")
    assert "afterwards" in capsys.readouterr().out, "the process logs as before"


def test_a_failure_is_one_sentence_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        run_copy(failing, "sharebroker backup", DESCRIBE, as_json=False)
    assert ended.value.exit_code == 1
    assert "sharebroker backup: The disk is a teapot." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (ArchiveError("The archive is a teapot."), "sharebroker export: The archive is a teapot."),
        (LogFull("OOM"), "sharebroker export: The memory of Redis is used up. Raise --max-memory"),
        (OSError(28, "No space left on device", "x"), "sharebroker export: No space left on device: x"),
        (KafkaError(ErrorCode.INVALID_CONFIG, "No such key."), "sharebroker export: No such key."),
        (LeasesUnavailable("Redis is away."), "sharebroker export: Redis is away."),
    ],
)
def test_every_expected_failure_is_one_sentence(
    failure: Exception, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail(_begin: Begin) -> None:
        raise failure

    with pytest.raises(typer.Exit) as ended:
        run_copy(fail, "sharebroker export", lambda _: Done({}, ""), as_json=False)
    assert ended.value.exit_code == 1
    assert text in capsys.readouterr().err
