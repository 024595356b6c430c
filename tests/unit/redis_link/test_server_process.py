"""The binary of the embedded server, and the last line of its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharebroker_server.redis_link.port import EmbeddedRedisFailed
from sharebroker_server.redis_link.server_process import checked_binary, inherited, last_log_line, terminate


async def test_another_program_is_no_server(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho version 1\n")
    program.chmod(0o700)
    with pytest.raises(EmbeddedRedisFailed, match="neither a redis-server nor a valkey-server"):
        await checked_binary(program)


async def test_missing_binary_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedRedisFailed, match="cannot be executed: No such file"):
        await checked_binary(tmp_path / "missing")


async def test_a_server_that_was_never_started_needs_no_end() -> None:
    await terminate(None)


def test_a_server_inherits_no_secrets() -> None:
    needed = {"PATH": "/bin", "LD_PRELOAD": "x.so", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    secret = {"SHAREBROKER_REDIS": "redis://:hush@h", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=hush"}
    assert inherited(needed | secret | {"AWS_SECRET_ACCESS_KEY": "hush"}) == needed


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            "1:M 26 Nov 2026 10:00:00.000 * Ready\n1:M 26 Nov 2026 10:00:01.000 # Out of memory\n",
            "Out of memory",
        ),
        ("no time stamp\n", "no time stamp"),
        ("", "its log is empty"),
        (None, "its log is empty"),
    ],
)
def test_last_log_line_has_no_time_stamp(tmp_path: Path, log: str | None, expected: str) -> None:
    path = tmp_path / "redis.log"
    if log is not None:
        path.write_text(log)
    assert last_log_line(path) == expected
