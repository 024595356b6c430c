"""Runs of pytest with tests that fail once, always, or with their worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

ONCE = """
from pathlib import Path
import pytest

@pytest.mark.xdist_group("group")
@pytest.mark.parametrize("mark", ["a b@c", "::d"])
def test_once(mark):
    path = Path(__file__).with_name(str(len(mark)))
    if not path.exists():
        path.touch()
        raise OSError("first try")

def test_passing():
    pass
"""
ALWAYS = ONCE + "\ndef test_always():\n    assert 0\n"
CRASH_ALWAYS = ONCE + "\ndef test_crash():\n    import os; os._exit(3)\n"
CRASH_ONCE = f"""{ONCE}
def test_crash():
    path = Path(__file__).with_name("crash")
    if not path.exists():
        path.touch()
        import os; os._exit(3)
"""
COLLECTION = ONCE + "\nassert 0\n"
INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
GROUPS = ("-n", "2", "--dist", "loadgroup", "-p", "tests.testkit.plugin")


@pytest.mark.parametrize(
    ("source", "options", "code", "last"),
    [
        (ONCE, GROUPS, 0, "3 passed, 2 rerun in"),
        (ALWAYS, GROUPS, 1, "1 failed, 3 passed, 2 rerun in"),
        (CRASH_ONCE, GROUPS, 0, "4 passed, 3 rerun in"),
        (CRASH_ALWAYS, GROUPS, 1, "1 failed, 3 passed, 2 rerun in"),
        (CRASH_ALWAYS, ("-n", "2"), 1, "1 failed, 3 passed, 2 rerun in"),
        (COLLECTION, (), 2, "1 error in"),
    ],
    ids=["once", "always", "crash once", "crash always", "crash always, no groups", "collection"],
)
def test_only_tests_that_pass_at_the_second_try_are_forgiven(
    tmp_path: Path, source: str, options: tuple[str, ...], code: int, last: str
) -> None:
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_file.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "tests.testkit.retry_failed", *options]
    command += ["--rootdir", str(tmp_path), "-c", str(tmp_path / "pytest.ini"), str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == code, ended.stdout
    assert last in ended.stdout.splitlines()[-1]
    listed = ended.stdout.count("passed at the second try: load-dependent")
    assert listed == (2 if "rerun" in last else 0)
