"""Runs of pytest with tests that have to run in one worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.architecture.sources import ROOT
from tests.integration.testkit.test_retry_failed import GROUPS, INI

SOURCE = """
import os
from pathlib import Path
import pytest

def note(name):
    with Path(__file__).with_name(name).open("a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")

@pytest.fixture(scope="module")
def server():
    note("starts")

@pytest.mark.parametrize("number", range(8))
def test_with_server(server, number):
    note("users")

@pytest.mark.parametrize("number", range(8))
@pytest.mark.xdist_group("group")
def test_of_group(number):
    note("group")
"""


def test_a_group_and_the_users_of_a_module_fixture_run_in_one_worker(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_file.py").write_text(SOURCE)
    command = [sys.executable, "-m", "pytest", *GROUPS]
    command += ["--rootdir", str(tmp_path), "-c", str(tmp_path / "pytest.ini"), str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stdout
    workers = {name: (tmp_path / name).read_text().split() for name in ("starts", "users", "group")}
    assert {name: len(ran) for name, ran in workers.items()} == {"starts": 1, "users": 8, "group": 8}
    assert all(len(set(ran)) == 1 for ran in workers.values())
