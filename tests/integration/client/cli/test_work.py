"""A command for each record."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from tests.integration.client.cli.commands import LINES, MAIN, lag
from tests.integration.client.cli.conftest import Command
from tests.testkit.waiting import until


def test_work_runs_a_command_for_each_record(
    sharebroker: Command, topic: str, group: str, tmp_path: Path
) -> None:
    sharebroker(
        "produce", topic, "--format", "jsonl", "--key", "id", stdin=b'{"id":"a"}\n{"id":"b"}\n{"id":"c"}\n'
    )
    script = (
        'echo "$SHAREBROKER_KEY $SHAREBROKER_DELIVERY_COUNT $(cat)" >> "$0"\n'
        'case "$SHAREBROKER_KEY $SHAREBROKER_DELIVERY_COUNT" in "a 1") exit 75;; b*) exit 1;; esac'
    )
    handled = tmp_path / "handled"
    options = ("--from-beginning", "--workers", "2", "--timeout", "3", "--json")
    ran = sharebroker("work", topic, "-g", group, *options, "--", "sh", "-c", script, str(handled))
    assert ran.data == {"accepted": 2, "released": 1, "rejected": 1, "refused": 0}, ran
    assert sorted(handled.read_text().splitlines()) == [
        'a 1 {"id":"a"}',
        'a 2 {"id":"a"}',
        'b 1 {"id":"b"}',
        'c 1 {"id":"c"}',
    ]


def test_work_needs_a_command_that_exists(sharebroker: Command, topic: str) -> None:
    ran = sharebroker("work", topic, "-g", "g", "--", "no-such-command-here")
    assert ran.code == 2
    assert "no-such-command-here" in ran.err


def test_interrupt_finishes_running_commands_and_releases_rest(
    sharebroker: Command, server: str, topic: str, group: str, tmp_path: Path
) -> None:
    sharebroker("produce", topic, stdin=LINES)
    started, go = tmp_path / "started", tmp_path / "go"
    os.mkfifo(go)
    script = f"echo >> {started}; read -r line < {go}"
    command = ["work", topic, "-g", group, "--from-beginning", "--server", server, "--json"]
    with subprocess.Popen([*MAIN, *command, "--", "sh", "-c", script], stdout=subprocess.PIPE) as process:
        until(started.exists, 30)
        process.send_signal(signal.SIGINT)
        go.write_text("on\n")
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert json.loads(out) == {"accepted": 1, "released": 0, "rejected": 0, "refused": 0}
    assert lag(sharebroker, group) == 9
