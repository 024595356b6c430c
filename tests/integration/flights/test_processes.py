"""The server of a run, as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sharebroker_server.flights.processes import NotServingError, serving
from tests.architecture.sources import ROOT

ROWS = 12_000


def run(data: Path) -> str:
    command = [sys.executable, "-m", "sharebroker_server.flights", "--once", "--rows", str(ROWS)]
    options = ["--data", str(data), "--grpc", "127.0.0.1:0", "--kafka", "127.0.0.1:0"]
    done = subprocess.run(command + options, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_second_server_on_same_data_is_rejected(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with serving(tmp_path, "127.0.0.1:0", "127.0.0.1:0", ()):
        before = log.read_text()
        rejection = pytest.raises(NotServingError, match=str(tmp_path))
        with rejection as rejected, serving(tmp_path, "127.0.0.1:0", "127.0.0.1:0", ()):
            pass
        assert rejected.value.exit_code == 2
        assert before
        assert log.read_text().startswith(before)
