"""`sharebroker pipeline` as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.architecture.sources import ROOT

SPARK: Final = ROOT / ".venv-spark"


def command(
    address: str, folder: Path, *options: str, how: str = "run", project: str = "example:flights"
) -> list[str]:
    """Returns the command line; the last value of an option counts, so `options` override the defaults."""
    program = [str(Path(sys.executable).with_name("sharebroker")), "pipeline", how, project]
    return [*program, "--server", address, "--folder", str(folder), "--spark", str(SPARK), *options]


def finished(line: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Runs it to its end."""
    environment = os.environ | {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}  # for short runs
    return subprocess.run(
        line, capture_output=True, text=True, timeout=seconds, check=False, cwd="/", env=environment
    )


def tables(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Returns the tables of the last run."""
    found: dict[str, list[dict[str, Any]]] = json.loads((folder / "report" / "summary.json").read_text())
    return found


def micro_batches(folder: Path) -> dict[str, float]:
    """Returns the micro-batches of bronze that Spark has recorded as done, and when."""
    commits = (folder / "checkpoints").glob("**/bronze_records/*/*/commits/[0-9]*")
    return {path.name: path.stat().st_mtime for path in commits}
