"""The pytest plugin, as the document about tests shows it: installed, without further configuration."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

pytestmark = pytest.mark.servers

EXAMPLE = re.compile(r"^```python pytest\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(folder: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """Runs tests with pytest, in a folder without settings."""
    for number, text in enumerate(tests):
        (folder / f"test_example_{number}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(folder)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=100
    )


@pytest.mark.parametrize(("document", "tests"), [("testing.md", 2), ("first-steps.md", 1)])
def test_examples_of_the_document_pass(tmp_path: Path, document: str, tests: int) -> None:
    examples = EXAMPLE.findall((ROOT / "docs" / document).read_text())
    done = run(tmp_path, *examples)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{tests} passed" in done.stdout


def test_each_test_has_its_own_topic_and_group_on_one_server(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import pytest

seen = set()

@pytest.mark.parametrize("_", range(2))
def test_names(sharebroker_server, sharebroker_topic, sharebroker_group, _):
    seen.update([sharebroker_topic, sharebroker_group, sharebroker_server.address])

def test_all():
    assert len(seen) == 5
""",
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_setting_fails_the_tests_that_use_the_server(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import pytest

@pytest.fixture(scope="session")
def sharebroker_settings():
    return {"no.such.property": "1"}

def test_without_server():
    pass

def test_with_server(sharebroker_server):
    pass
""",
    )
    assert "no.such.property" in done.stdout
    assert "1 passed, 1 error" in done.stdout
