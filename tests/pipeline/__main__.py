"""`make pipeline`: all flights through the pipeline, killed once in between, and a verdict."""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from rich.console import Console

from sharebroker.aio.admin import Admin
from sharebroker_server.flights import dataset
from sharebroker_server.pipeline.spark_process import NoSparkError, find_spark
from tests.architecture.sources import ROOT
from tests.pipeline import queue
from tests.pipeline.command import SPARK, command, micro_batches, tables
from tests.pipeline.verdict import judge
from tests.support.client import connected
from tests.testkit.brokers import one_process
from tests.testkit.waiting import until

PARTITIONS: Final = 8
_SPOILT: Final = 800
_PORTION: Final = 20_000
_PORTIONS: Final = 3
"""A run of few rows has smaller micro-batches, so that it can be killed after the second."""
_RUN_SECONDS: Final = 1800.0
_console: Final = Console(highlight=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.pipeline", description=__doc__)
    parser.add_argument("--rows", type=int, default=dataset.ROWS, help="how many flights, from the first on")
    parser.add_argument("--work", type=int, default=60_000, help="how many of them workers handle before")
    parser.add_argument("--keep", type=Path, default=ROOT / "data" / "pipeline", help="file of the report")
    options = parser.parse_args()
    try:
        find_spark(SPARK)
    except NoSparkError as missing:
        _console.print(str(missing))
        return 2
    _console.print("All flights take ten minutes and more on two cores; --rows 24000: fewer.")
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="sharebroker-pipeline-") as name,
        one_process(*queue.SERVER_OPTIONS) as cluster,
    ):
        published = asyncio.run(_prepare(cluster.address, options.rows, options.work))
        folder = Path(name) / "pipeline"
        _console.print("A dry run:")
        if code := _run(command(cluster.address, folder, how="dry-run")):
            return code
        _console.print("A run that is killed:")
        portion = str(max(1, min(_PORTION, options.rows // _PORTIONS)))
        line = command(cluster.address, folder, "--from-beginning", "--records-per-trigger", portion)
        if (kept := _killed(line, folder)) is None:
            _console.print(f"The run ended before it was killed: {options.rows} --rows are too few.")
            return 1
        _console.print(f"Killed (SIGKILL) after {len(kept)} micro-batches. Started again:")
        if code := _run(command(cluster.address, folder)):
            return code
        faults = judge(tables(folder), published, kept, micro_batches(folder))
        options.keep.mkdir(parents=True, exist_ok=True)
        report = options.keep / "report.html"
        report.write_bytes((folder / "report" / "index.html").read_bytes())
    _console.print(f"The report is kept: {report}")
    for fault in faults:
        _console.print(fault, style="red")
    verdict = (
        "something is wrong" if faults else "every record is in the tables once, and state and logs agree"
    )
    _console.print(f"Verdict: {verdict}. {time.monotonic() - began:.0f} s.", style="bold")
    return 1 if faults else 0


async def _prepare(address: str, rows: int, work: int) -> queue.Published:
    folder = dataset.install(ROOT / ".cache" / "flights")
    async with connected(address) as client, Admin(address) as admin:
        published = await queue.publish(client, address, dataset.flights(folder, rows), PARTITIONS)
        _console.print(
            f"Published {published.records:,} records, {sum(published.rejected.values()):,} to reject."
        )
        await queue.work(client, admin, min(work, rows // 2))
        await queue.disturb(client, admin, min(_SPOILT, rows // 4))
        _console.print(
            "Workers in a group of their own accepted, rejected, released or ignored some of them."
        )
    return published


def _run(line: list[str]) -> int:
    return subprocess.run(line, check=False, timeout=_RUN_SECONDS).returncode


def _killed(line: list[str], folder: Path) -> dict[str, float] | None:
    """Runs the pipeline until two micro-batches are done, then kills it; returns those that were done.

    Returns None for a run that ended before. Exits if it failed.
    """
    process = subprocess.Popen(line)
    try:
        until(lambda: len(micro_batches(folder)) >= 2 or process.poll() is not None, _RUN_SECONDS)
        if process.poll() is None:
            return micro_batches(folder)
        if process.returncode:
            sys.exit(process.returncode)
        return None
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
