"""The launcher, run by a process with stand-ins for Spark: `spark-pipelines`, the report, and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.sources import ROOT

pytestmark = pytest.mark.slow  # each test starts Python

LAUNCHER = ROOT / "services" / "sharebroker_server" / "pipeline" / "launcher.py"
"""It cannot be imported without Spark."""

SPARK = """
import json, os
class _Builder:
    settings = {}
    def config(self, name, value):
        self.settings[name] = value
        return self
    def getOrCreate(self):
        return _Spark()
class _Server:
    def localPort(self):
        return 4711
class _Java:
    def __getattr__(self, name):
        return _Server() if name == "MODULE$" else self
class _Spark:
    _jvm = _Java()
    def stop(self):
        print("stopped", flush=True)
class SparkSession:
    builder = _Builder()
"""
CLI = """
import json, os, sys
print(json.dumps({"arguments": sys.argv[1:], "remote": os.environ["SPARK_REMOTE"],
                  "token": os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"]}), flush=True)
if os.environ.get("HANG"):
    sys.stdin.read()
    import time; time.sleep(60)
sys.exit(int(os.environ.get("CODE", "0")))
"""
REPORT = """
def write_report(spark, settings, folder):
    print("report", settings, folder, flush=True)
"""

SETTINGS = """
class Settings:
    @staticmethod
    def of(get):
        return get("name")
"""


class Harness:
    """A folder with the launcher and stand-ins for the modules of Spark's environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = {
            "py4j/protocol.py": "class Py4JError(Exception): pass",
            "pyspark/__init__.py": "",
            "pyspark/sql.py": SPARK,
            "pyspark/pipelines/__init__.py": "",
            "pyspark/pipelines/cli.py": CLI,
            "sharebroker_server/pipeline/__init__.py": "",
            "sharebroker_server/pipeline/report.py": REPORT,
            "sharebroker_server/pipeline/settings.py": SETTINGS,
            "spec.yml": '{"configuration": {"name": "settings"}}',
            "sharebroker_server/pipeline/launcher.py": LAUNCHER.read_text(),
        }
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    def start(self, command: str, **environment: str) -> subprocess.Popen[str]:
        launcher = [sys.executable, "-m", "sharebroker_server.pipeline.launcher", "spec.yml", "out"]
        program = [*launcher, *command.split()]
        return subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            env=os.environ | {"PYTHONPATH": str(self.folder)} | environment, cwd=self.folder,
        )  # fmt: skip

    def run(self, command: str, **environment: str) -> tuple[int, list[str]]:
        """Its exit code and its output; its input stays open."""
        with self.start(command, **environment) as process:
            assert process.stdout is not None
            lines = process.stdout.read().splitlines()
            return process.wait(), lines


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def pipelines(lines: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lines[0])
    return found


def test_pipelines_connect_to_the_port_of_this_spark(harness: Harness) -> None:
    code, lines = harness.run("run")
    assert code == 0
    called = pipelines(lines)
    assert called["arguments"] == ["run", "--spec", "spec.yml"]
    assert pipelines(harness.run("run --full-refresh a,b")[1])["arguments"][-2:] == ["--full-refresh", "a,b"]
    assert called["remote"] == "sc://localhost:4711"


def test_each_run_has_a_token_of_its_own(harness: Harness) -> None:
    tokens = {pipelines(harness.run("run")[1])["token"] for _ in range(2)}
    assert len(tokens) == 2
    assert {len(token) for token in tokens} == {32}


def test_report_is_written_after_a_run_and_before_spark_stops(harness: Harness) -> None:
    assert harness.run("run")[1][1:] == ["report settings out", "stopped"]


@pytest.mark.parametrize(("command", "code"), [("dry-run", 0), ("run", 3)])
def test_dry_run_and_failed_run_write_no_report(harness: Harness, command: str, code: int) -> None:
    ended, lines = harness.run(command, CODE=str(code))
    assert ended == code
    assert lines[1:] == ["stopped"]


def test_all_processes_end_when_the_input_ends(harness: Harness) -> None:
    with harness.start("run", HANG="1") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline()  # `spark-pipelines` runs
        process.stdin.close()
        assert process.wait(20) in (143, -signal.SIGTERM)
        assert "report" not in process.stdout.read()  # and the pipe is closed: no process holds it
