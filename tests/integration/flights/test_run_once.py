"""The main job of `make run` on the first flights: everything is finished once, though a worker dies."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

ROWS = 12_000


def run(data: Path) -> str:
    command = [sys.executable, "-m", "sharebroker_server.flights", "--once", "--rows", str(ROWS)]
    options = ["--data", str(data), "--grpc", "127.0.0.1:0", "--kafka", "127.0.0.1:0"]
    done = subprocess.run(command + options, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_flight_is_finished_exactly_once(tmp_path: Path) -> None:
    first = run(tmp_path)
    assert re.search(r"\[worker-\d was killed \(SIGKILL\)\]", first) is not None
    sums = re.search(r"published ([\d,]+) = accepted ([\d,]+) \+ rejected ([\d,]+)\n", first)
    assert sums is not None
    published, accepted, rejected = (int(number.replace(",", "")) for number in sums.groups())
    assert published == ROWS == accepted + rejected
    assert rejected > 0
    assert "Verdict: every record was finished exactly once." in first

    again = run(tmp_path)
    assert "8 workers, 0 of 12,000 flights to process." in again
    assert "finished by an earlier run 12,000 + accepted 0 + rejected 0" in again
    assert "redelivered after they were finished: 0" in again


def test_invalid_setup_is_one_sentence_and_code_2(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sharebroker_server.flights",
        "--once",
        "--data",
        str(tmp_path),
        "--grpc",
        "nonsense",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "HOST:PORT" in done.stderr
