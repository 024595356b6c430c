"""A test that C code or a teardown blocks ends with its process, and other tests are not affected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each test starts pytest

_CONFTEST = """
from tests.testkit.watchdog import Watchdog
def pytest_configure(config):
    config.pluginmanager.register(Watchdog(grace={grace}), "watchdog")
"""
_ONE_SECOND = "import pytest, signal, time\n@pytest.mark.timeout(1)\n"


def run(folder: Path, grace: float, tests: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(_CONFTEST.format(grace=grace))
    (folder / "test_sample.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=60", str(folder)]
    command += ["--rootdir", str(folder), "-c", "/dev/null", "-p", "no:asyncio"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_signal_of_a_timeout_fails_one_test(tmp_path: Path) -> None:
    ended = run(tmp_path, 60.0, f"{_ONE_SECOND}def test_a(): time.sleep(60)\ndef test_b(): pass")
    assert "1 failed, 1 passed" in ended.stdout
    assert "from pytest-timeout" in ended.stdout


@pytest.mark.parametrize(
    "tests",
    [
        "def test_a():\n    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]); time.sleep(60)",
        "def test_a(a): assert 0\n@pytest.fixture\ndef a():\n    yield\n    time.sleep(60)",
    ],
    ids=["a signal that Python does not handle", "the teardown of a failed test"],
)
def test_a_blocked_process_ends_with_the_stack(tmp_path: Path, tests: str) -> None:
    ended = run(tmp_path, 0.5, _ONE_SECOND + tests)
    assert ended.returncode == 1
    assert "passed" not in ended.stdout
    assert "Timeout (0:00:02)" in ended.stderr
    assert "test_sample.py" in ended.stderr


def test_tests_without_a_timeout_are_not_ended(tmp_path: Path) -> None:
    tests = f"{_ONE_SECOND}def test_a(): assert 0\n@pytest.mark.timeout(0)\ndef test_b(): time.sleep(4)"
    assert "1 failed, 1 passed" in run(tmp_path, 1.0, tests).stdout
