"""A command started with closed standard streams fails with an error and does not abort."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMMAND = "from sharebroker.cli import main; main()"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_redirected_to_dev_null(closed: str) -> None:
    words = [sys.executable, "-c", COMMAND, "topics", "list", "--server", "127.0.0.1:1"]
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *words]
    ended = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ("cannot be reached" in ended.stderr) == ("2>&-" not in closed)
