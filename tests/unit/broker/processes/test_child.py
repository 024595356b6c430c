"""The process of one broker as its supervisor starts it."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from sharebroker_server.broker.defaults import CLOSED
from sharebroker_server.broker.identity import PeerListener
from sharebroker_server.broker.processes import child
from sharebroker_server.broker.processes.broker_process import BROKER
from sharebroker_server.broker.processes.plan import BrokerStart
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.config.broker import BrokerConfig

pytestmark = pytest.mark.servers  # each test starts a process


def start(audit_file: Path | None = None) -> BrokerStart:
    """Returns a broker for whose Redis nothing listens."""
    settings = ServeSettings(
        redis="redis://:hush@127.0.0.1:1", grpc="127.0.0.1:0", kafka=CLOSED, config=BrokerConfig.parse(())
    )
    return BrokerStart(3, settings, PeerListener("127.0.0.1", "127.0.0.1"), "json", audit_file)


def run(parent: int, described: BrokerStart) -> subprocess.CompletedProcess[bytes]:
    """Runs the program to its end, with any process as its supervisor."""
    command = [*BROKER, str(parent)]
    return subprocess.run(
        command, input=pickle.dumps(described), capture_output=True, timeout=60, check=False
    )


def test_a_broker_without_its_supervisor_does_not_start() -> None:
    done = run(1, start())
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"the supervisor exited\n")


def test_a_broker_that_cannot_start_reports_one_sentence(tmp_path: Path) -> None:
    done = run(os.getpid(), start(tmp_path / "missing" / "audit.log"))
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"].startswith(f"The audit log {tmp_path}/missing/audit.log cannot")
    assert done.stderr == b""
    assert b"hush" not in done.stdout


async def test_prints_of_a_broker_do_not_reach_its_supervisor() -> None:
    script = (
        f"from {child.__name__} import _take_output\n"
        "report = _take_output()\nprint('printed', flush=True)\nreport({'kafka': None})\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await asyncio.wait_for(process.communicate(), 60)
    assert (json.loads(out), errors) == ({"kafka": None}, b"printed\n")
