"""Runs pytest in several processes at once: `python -m tests.testkit.parts 3 tests/unit -m "not slow"`.

Each process runs a part of the test files. It collects only these, whereas each worker of pytest-xdist
collects all files and sends a report of each test to another process. The paths are divided; the options
after them apply to each part.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path
from threading import Lock
from typing import Final

import pytest

COSTS: Final = {
    "tests/architecture": 6,
    "tests/property": 3,
    "tests/property/kafka_wire": 16,
    "tests/scenarios": 2,
    "tests/scenarios/group_coordinator": 4,
    "tests/unit/client": 3,
    "tests/unit/client/aio": 6,
    "tests/unit/client/worker": 7,
    "tests/unit/gateway/consume": 4,
    "tests/unit/gateway/kafka": 2,
}
"""CPU and waits per byte of the test modules below a folder, in relation to the other unit tests."""


def divide(costs: Mapping[Path, int], parts: int) -> list[list[Path]]:
    """Returns the files in `parts` lists of about the same cost; the files of a folder stay together.

    They have imports and caches in common.
    """
    folders: dict[Path, list[Path]] = {}
    for file in costs:
        folders.setdefault(file.parent, []).append(file)
    totals = {folder: sum(costs[file] for file in files) for folder, files in folders.items()}
    found: list[list[Path]] = [[] for _ in range(parts)]
    for folder in sorted(totals, key=lambda folder: (-totals[folder], folder)):
        min(found, key=lambda part: sum(costs[file] for file in part)).extend(folders[folder])
    return [sorted(part) for part in found]


def find_modules(paths: Iterable[Path]) -> dict[Path, int]:
    """Returns the test modules in files and folders, each with an estimate of its cost."""
    found = (
        file for path in paths for file in (sorted(path.rglob("test_*.py")) if path.is_dir() else [path])
    )
    return {file: file.stat().st_size * _cost_of_a_byte(file) for file in found}


def _cost_of_a_byte(file: Path) -> int:
    return max((cost for folder, cost in COSTS.items() if file.is_relative_to(folder)), default=1)


def exit_code(codes: Sequence[int]) -> int:
    """Returns the exit code of all parts: the largest; a part without selected tests counts as passed."""
    if all(code == pytest.ExitCode.NO_TESTS_COLLECTED for code in codes):
        return pytest.ExitCode.NO_TESTS_COLLECTED
    return max(code for code in codes if code != pytest.ExitCode.NO_TESTS_COLLECTED)


class Output:
    """Prints the progress of all parts line by line, and the report at the end of each in one piece."""

    def __init__(self) -> None:
        self._lock = Lock()

    def copy(self, lines: Iterable[str]) -> None:
        """Prints the output of a part until it ends; its report begins with a line of equal signs."""
        report: list[str] = []
        for line in lines:
            if report or line.startswith("="):
                report.append(line)
            else:
                self._print(line)
        self._print("".join(report))

    def _print(self, text: str) -> None:
        with self._lock:
            sys.stdout.write(text)
            sys.stdout.flush()


def run(files: Sequence[Path], options: Sequence[str], output: Output) -> int:
    """Runs pytest on `files`; returns its exit code."""
    command = [sys.executable, "-m", "pytest", *options, *map(str, files)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        output.copy(process.stdout)
    return process.returncode


def main(arguments: Sequence[str]) -> int:
    """Runs the parts; returns the exit code of all of them."""
    count, *rest = arguments
    paths = [*takewhile(lambda argument: not argument.startswith("-"), rest)]
    options = rest[len(paths) :]
    parts = [files for files in divide(find_modules(map(Path, paths)), int(count)) if files]
    output = Output()
    with ThreadPoolExecutor(len(parts)) as threads:
        return exit_code([*threads.map(lambda files: run(files, options, output), parts)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
