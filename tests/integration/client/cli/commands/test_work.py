"""A command for each record."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sharebroker import Acl, Admin, Producer
from sharebroker.cli.app import app
from sharebroker.cli.commands.work import delivery_limit
from sharebroker_server.config.broker import STANDARD_AUTHORIZER
from tests.integration.client.cli.commands.commands import LINES, MAIN, lag
from tests.integration.client.cli.commands.conftest import Command
from tests.testkit.brokers import one_process
from tests.testkit.waiting import until

COUNTS = ("accepted", "released", "rejected", "exhausted", "refused")


def counts(data: dict[str, Any]) -> list[int]:
    return [data[name] for name in COUNTS]


def offsets(data: dict[str, Any], kind: str) -> set[tuple[int, int]]:
    return {(record["partition"], record["offset"]) for record in data[f"{kind}_records"]}


def test_new_group_behind_existing_records_is_reported(sharebroker: Command, topic: str, group: str) -> None:
    def errors(*options: str) -> str:
        return sharebroker("work", topic, "-g", group, "--timeout", "1", *options, "--", "true").err

    notice = f"Group '{group}' has no start offset and starts at the end of topic '{topic}', behind 2 records"
    sharebroker("produce", topic, stdin=b"a\nb\n")
    assert notice in errors()
    assert notice not in errors("--auto-offset-reset", "latest")
    assert notice not in errors("--from-beginning")


def test_exit_code_decides_and_retries_are_delayed(
    sharebroker: Command, topic: str, group: str, tmp_path: Path
) -> None:
    keys = b"".join(b'{"id":"%s"}\n' % key for key in (b"a", b"b", b"c", b"d"))
    sharebroker("produce", topic, "--format", "jsonl", "--key", "id", stdin=keys)
    script = (
        'echo "$SHAREBROKER_KEY $SHAREBROKER_DELIVERY_COUNT $(cat)" >> "$0"\n'
        'case "$SHAREBROKER_KEY $SHAREBROKER_DELIVERY_COUNT" in\n'
        "a?1) exit 1;; b*) exit 65;; d?1) kill -KILL $$;; esac"
    )
    handled = tmp_path / "handled"
    options = ("--from-beginning", "--workers", "2", "--timeout", "3", "--backoff", "0.2", "--json")
    ran = sharebroker("work", topic, "-g", group, *options, "--", "sh", "-c", script, str(handled))
    assert counts(ran.data) == [3, 2, 1, 0, 0], ran
    assert ran.code == 3, "a record was rejected"
    assert len(ran.data["rejected_records"]) == 1
    assert ran.data["unfinished_records"] == []
    assert sorted(handled.read_text().splitlines()) == [
        'a 1 {"id":"a"}',
        'a 2 {"id":"a"}',
        'b 1 {"id":"b"}',
        'c 1 {"id":"c"}',
        'd 1 {"id":"d"}',
        'd 2 {"id":"d"}',
    ]
    assert "exit code 1; released, delay 0.2 s" in ran.err
    assert "SIGKILL; released, delay 0.2 s" in ran.err
    assert "exit code 65; rejected" in ran.err


def test_record_that_is_accepted_after_a_retry_is_done(sharebroker: Command, topic: str, group: str) -> None:
    sharebroker("produce", topic, stdin=b"x\n")
    options = ("--from-beginning", "--timeout", "3", "--backoff", "0.1")
    script = "test $SHAREBROKER_DELIVERY_COUNT -gt 1"
    ran = sharebroker("work", topic, "-g", group, *options, "--", "sh", "-c", script)
    assert ran.code == 0, ran
    assert ran.err.splitlines()[-1] == "Accepted 1, released 1, rejected 0, exhausted 0, refused 0."


def test_record_that_always_fails_is_exhausted(sharebroker: Command, topic: str, group: str) -> None:
    sharebroker("groups", "config", group, "--set", "share.delivery.count.limit=2")
    sharebroker("produce", topic, stdin=b"x\n")
    options = ("--from-beginning", "--timeout", "1", "--backoff", "0.1", "--json")
    ran = sharebroker("work", topic, "-g", group, *options, "--", "false")
    assert ran.code == 3
    assert counts(ran.data) == [0, 1, 0, 1, 0]
    assert len(ran.data["exhausted_records"]) == 1
    assert ran.data["unfinished_records"] == []
    assert lag(sharebroker, group) == 0


@pytest.mark.servers
def test_work_needs_no_permission_to_read_the_delivery_limit() -> None:
    options = (
        f"--set=authorizer.class.name={STANDARD_AUTHORIZER}",
        "--set=allow.everyone.if.no.acl.found=true",
    )
    with one_process(*options) as cluster:
        with Admin(cluster.address) as admin:
            admin.create_topic("orders", 1)
            configs = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "2"}
            admin.alter_group_configs("billing", configs)
            admin.create_acls([Acl("User:ANONYMOUS", "read", "group", "billing")])
        with Producer(cluster.address) as producer:
            producer.send("orders", b"x")
        until(lambda: delivery_limit(cluster.address, "billing") is None)
        assert delivery_limit(cluster.address, "another") == 5
        command = ["work", "orders", "-g", "billing", "--timeout", "1", "--backoff", "0.1", "--json"]
        server = {"SHAREBROKER_SERVER": cluster.address}
        ran = CliRunner().invoke(app, [*command, "--", "false"], env=server)
    assert ran.exit_code == 3
    assert counts(json.loads(ran.stdout)) == [0, 2, 0, 0, 0]


def test_other_codes_reject_only_if_they_are_chosen(sharebroker: Command, topic: str, group: str) -> None:
    sharebroker("produce", topic, "--partition", "1", stdin=b"7\n100\n109\n65\n")
    options = ("--from-beginning", "--backoff", "60", "--max-failures", "1", "--json")
    codes = ("--reject-codes", "100-109,7")
    ran = sharebroker("work", topic, "-g", group, *options, *codes, "--", "sh", "-c", "exit $(cat)")
    assert ran.code == 3
    assert counts(ran.data) == [0, 1, 3, 0, 0]
    assert offsets(ran.data, "rejected") == {(1, 0), (1, 1), (1, 2)}
    assert offsets(ran.data, "unfinished") == {(1, 3)}


def test_no_number_of_failures_stops_the_command_without_a_limit(
    sharebroker: Command, topic: str, group: str
) -> None:
    sharebroker("groups", "config", group, "--set", "share.delivery.count.limit=2")
    sharebroker("produce", topic, stdin=b"".join(b"%d\n" % number for number in range(15)))
    options = ("--from-beginning", "--max-failures", "0", "--timeout", "1", "--backoff", "0.1", "--json")
    ran = sharebroker("work", topic, "-g", group, *options, "--", "false")
    assert counts(ran.data) == [0, 15, 0, 15, 0], "more than the default limit of 20 in a row"
    assert ran.code == 3
    assert "Stopped after" not in ran.err


def test_consecutive_failures_stop_the_command(sharebroker: Command, topic: str, group: str) -> None:
    sharebroker("produce", topic, stdin=LINES)
    options = ("--from-beginning", "--max-failures", "3", "--backoff", "60", "--json")
    ran = sharebroker("work", topic, "-g", group, *options, "--", "false")
    assert ran.code == 3
    assert counts(ran.data) == [0, 3, 0, 0, 0]
    assert len(ran.data["unfinished_records"]) == 3
    assert "Stopped after 3 consecutive failures." in ran.err
    assert lag(sharebroker, group) == 10


def test_command_that_cannot_start_is_a_failure(
    sharebroker: Command, topic: str, group: str, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    sharebroker("produce", topic, stdin=b"x\n")
    options = ("--from-beginning", "--max-failures", "1", "--backoff", "60")
    ran = sharebroker("work", topic, "-g", group, *options, "--", str(broken))
    assert ran.code == 3
    assert "the command cannot be started: No such file or directory; released, delay 60 s." in ran.err


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--", "no-such-command-here"), "no-such-command-here"),
        (("--reject-codes", "0", "--", "true"), "neither an exit code"),
        (("--backoff", "86401", "--", "true"), "--backoff"),
        (("--max-failures", "-1", "--", "true"), "--max-failures"),
    ],
)
def test_wrong_usage_exits_with_2(
    sharebroker: Command, topic: str, options: tuple[str, ...], named: str
) -> None:
    ran = sharebroker("work", topic, "-g", "g", *options)
    assert ran.code == 2
    assert named in ran.err


@contextmanager
def working(server: str, topic: str, group: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Starts `sharebroker work` in a process of its own."""
    arguments = ["work", topic, "-g", group, "--from-beginning", "--server", server, "--json", *command]
    with subprocess.Popen([*MAIN, *arguments], stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_finishes_running_commands_and_releases_rest(
    sharebroker: Command, server: str, topic: str, group: str, tmp_path: Path, number: signal.Signals
) -> None:
    sharebroker("produce", topic, stdin=LINES)
    started, go = tmp_path / "started", tmp_path / "go"
    os.mkfifo(go)
    script = f"echo >> {started}; read -r line < {go}"
    with working(server, topic, group, "--", "sh", "-c", script) as process:
        until(started.exists, 30)
        process.send_signal(number)
        go.write_text("on\n")
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert counts(json.loads(out)) == [1, 0, 0, 0, 0]
    assert lag(sharebroker, group) == 9


def test_command_beyond_the_grace_period_is_terminated(
    sharebroker: Command, server: str, topic: str, group: str, tmp_path: Path
) -> None:
    sharebroker("produce", topic, stdin=b"x\n")
    started, ended = tmp_path / "started", tmp_path / "ended"
    script = f"trap 'echo > {ended}; exit 1' TERM; echo > {started}; sleep 60 & wait"
    with working(server, topic, group, "--grace", "0.1", "--", "sh", "-c", script) as process:
        until(started.exists, 30)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 3
    assert ended.exists()
    data = json.loads(out)
    assert counts(data) == [0, 1, 0, 0, 0]
    assert len(data["unfinished_records"]) == 1
