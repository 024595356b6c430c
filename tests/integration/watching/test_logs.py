"""The log of a process, and how its level changes at run time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as groups
from tests.integration.watching.conftest import Watched
from tests.support.client import TIMEOUT, connected
from tests.testkit.brokers import Serve
from tests.testkit.servers import Server
from tests.testkit.waiting import eventually


def lines(watched: Watched) -> list[dict[str, object]]:
    """Returns all logged lines; every line is JSON, whichever library wrote it."""
    return [json.loads(line) for line in watched.serve.log.splitlines()]


async def test_the_level_can_be_changed_while_it_runs(watched: Watched) -> None:
    assert lines(watched)[0]["event"] == "serving"
    async with connected(watched.serve.address) as client:
        await client.configure_broker("log.level", "error")
        loss = "Redis connection lost"

        def losses() -> int:
            return sum(str(line["event"]).startswith(loss) for line in lines(watched))

        before = losses()
        _restart(watched.redis)
        await eventually(lambda: _serves(watched), 60)
        assert losses() == before
        await client.configure_broker("log.level", "info")
        _restart(watched.redis)
        await eventually(losses, 60)
        await eventually(lambda: _serves(watched), 60)
    (line, *_) = [line for line in lines(watched) if str(line["event"]).startswith(loss)]
    assert line["level"] == "warning"


async def test_events_are_logged_once(watched: Watched) -> None:
    """Topics, configs, groups; members whose session timed out."""
    async with connected(watched.serve.address) as client:
        topic, topic_id = await client.create(partitions=2)
        group = await client.group(share_session_timeout_ms="1000")
        await client.heartbeat(group, "silent", 0, [topic])

        def logged() -> list[tuple[object, object]]:
            here = (topic, group)
            return [
                (line["event"], line["level"])
                for line in lines(watched)
                if not {line.get("topic"), line.get("name"), line.get("group")}.isdisjoint(here)
            ]

        await eventually(lambda: len(logged()) == 3, 60)
        await client.admin.DeleteGroups(groups.DeleteGroupsRequest(group_ids=[group]), timeout=TIMEOUT)
        await client.delete(topic)
    assert logged() == [
        ("topic created", "info"),
        ("configs changed", "info"),
        ("member session timed out", "info"),
        ("share group deleted", "info"),
        ("topic deleted", "info"),
    ]
    created = next(line for line in lines(watched) if line.get("id") == topic_id)
    assert created["partitions"] == 2
    assert any(line["event"] == "leases moved" for line in lines(watched))


def _restart(redis: Server) -> None:
    redis.kill()
    redis.restart()


async def _serves(watched: Watched) -> bool:
    return (await watched.ask("/readyz"))[0] == 200


def test_text_format_is_readable(tmp_path: Path) -> None:
    options = ["--data", str(tmp_path / "data"), "--log-format", "text"]
    serve = Serve(tmp_path, options, "text")
    serve.start()
    assert serve.stop() == 0
    assert "[info     ] serving" in serve.log


def test_unknown_log_format_is_rejected() -> None:
    command = [sys.executable, "-m", "sharebroker_server.broker", "--log-format", "xml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--log-format" in done.stderr
