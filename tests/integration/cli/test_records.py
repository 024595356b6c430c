"""Publishing, consuming and working from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sharebroker.cli.reading import BadInputError
from tests.integration.cli.conftest import Command
from tests.testkit.waiting import until

LINES = b"".join(b"line %d\n" % number for number in range(10))
MAIN = [sys.executable, "-c", "from sharebroker.cli import main; main()"]


def taken(
    sharebroker: Command, topic: str, group: str, most: int, answer: str = "--accept"
) -> list[dict[str, object]]:
    """Returns the next records of a group, at most `most`."""
    options = ("--max", str(most), "--timeout", "20", "--from-beginning", "--json", answer)
    ran = sharebroker("consume", topic, "-g", group, *options)
    assert ran.code == 0, ran
    records = [json.loads(line) for line in ran.out.splitlines()]
    assert len(records) == most
    return records


def lag(sharebroker: Command, group: str) -> int:
    """Returns how many records the group has not finished."""
    return sum(row["lag"] or 0 for row in sharebroker("groups", "offsets", group, "--json").data)


def test_produced_lines_are_consumed(sharebroker: Command, topic: str, group: str) -> None:
    made = sharebroker("produce", topic, "--header", "source=test", "--json", stdin=LINES)
    assert made.data == {"topic": topic, "records": 10}
    records = taken(sharebroker, topic, group, 10)
    assert sorted(str(record["value"]) for record in records) == LINES.decode().splitlines()
    assert all(record["headers"] == {"source": "test"} for record in records)
    assert lag(sharebroker, group) == 0


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_csv_with_keys_in_every_compression(
    sharebroker: Command, topic: str, group: str, tmp_path: Path, compression: str
) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("id,name\n1,a\n2,b\n1,c\n")
    made = sharebroker("produce", topic, str(file), "--key", "id", "--compression", compression)
    assert made.code == 0, made
    records = taken(sharebroker, topic, group, 3)
    by_key = {str(record["key"]): record["partition"] for record in records}
    assert sorted(by_key) == ["1", "2"]
    assert [json.loads(str(r["value"]))["name"] for r in records if r["key"] == "1"] == ["a", "c"]


def test_bad_line_is_named_and_earlier_lines_are_published(
    sharebroker: Command, topic: str, group: str
) -> None:
    ran = sharebroker("produce", topic, "--format", "jsonl", stdin=b'{"a": 1}\nnonsense\n')
    assert ran.code == 1
    assert isinstance(ran.failure, BadInputError)
    assert "Line 2 is not JSON" in str(ran.failure)
    assert "Published 1 records" in ran.err
    taken(sharebroker, topic, group, 1)
    assert lag(sharebroker, group) == 0


def test_released_record_is_redelivered(sharebroker: Command, topic: str, group: str) -> None:
    sharebroker("produce", topic, stdin=b"once\n")
    first = taken(sharebroker, topic, group, 1, "--release")
    second = taken(sharebroker, topic, group, 1, "--reject")
    assert [record["delivery_count"] for record in first + second] == [1, 2]
    assert lag(sharebroker, group) == 0


def test_ask_acknowledges_record_by_record(sharebroker: Command, topic: str, group: str) -> None:
    sharebroker("produce", topic, stdin=b"x\ny\nz\n")
    ran = sharebroker(
        "consume", topic, "-g", group, "--from-beginning", "--ask", "--max", "3", stdin=b"a\nwhat\nj\nq\n"
    )
    assert ran.code == 0, ran
    assert "Accepted 1, rejected 1." in ran.err
    assert lag(sharebroker, group) == 1


@pytest.mark.parametrize("options", [("--max", "5"), ("--max", "5", "--release"), ()])
def test_consume_stops_after_timeout_without_records(
    sharebroker: Command, topic: str, group: str, options: tuple[str, ...]
) -> None:
    ran = sharebroker("consume", topic, "-g", group, "--timeout", "0.5", *options)
    assert ran.code == 0, ran
    assert "No records arrived." in ran.err


def test_actions_exclude_each_other(sharebroker: Command, topic: str) -> None:
    ran = sharebroker("consume", topic, "-g", "g", "--accept", "--reject")
    assert ran.code == 2
    assert "exclude each other" in ran.err


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
    handled = tmp_path / "told"
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
