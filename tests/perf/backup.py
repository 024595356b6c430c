"""`make bench-backup`: seconds of `sharebroker backup`, and the longest pause of clients during it.

The broker has the requested amount of incompressible records. One client publishes a record every few
milliseconds, another one acquires and accepts them. Their longest call is measured before and during the
backup. The program fails above an aim, for 1 GB.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop

from tests.perf.restart import fill
from tests.support.client import Client, connected
from tests.testkit.brokers import Serve

MOST_SECONDS: Final = 20.0
LONGEST_PAUSE: Final = 0.5
BEFORE: Final = 10.0
"""Seconds without a backup."""

PAUSE: Final = 0.005
_MAIN: Final = [sys.executable, "-c", "from sharebroker.cli import main; main()"]


class Calls:
    """The calls of the clients: the longest since `restart`, in seconds."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.count = 0

    def restart(self) -> tuple[float, int]:
        """Returns the longest call and the number of calls, and starts with none."""
        found = self.longest, self.count
        self.longest, self.count = 0.0, 0
        return found

    async def publish(self, client: Client, topic: str) -> None:
        """Publishes a record every few milliseconds."""
        while True:
            begun = time.perf_counter()
            await client.publish(topic, ["x"])
            self._add(begun)
            await asyncio.sleep(PAUSE)

    async def work(self, client: Client, topic: str, group_id: str) -> None:
        """Acquires and accepts records; the wait for a record does not count."""
        while True:
            records = (await client.acquire(group_id, topic, 10, member="m", wait=5.0)).records
            begun = time.perf_counter()
            await client.acknowledge(group_id, "m", records)
            self._add(begun)

    def _add(self, begun: float) -> None:
        self.longest = max(self.longest, time.perf_counter() - begun)
        self.count += 1


async def measure(address: str, data: Path, target: Path) -> tuple[float, float, float]:
    """Returns the seconds of a backup, and the longest calls before it and during it."""
    async with connected(address) as publisher, connected(address) as worker:
        topic, _ = await publisher.create()
        group_id = await publisher.group()
        calls = Calls()
        running = [
            asyncio.create_task(calls.publish(publisher, topic)),
            asyncio.create_task(calls.work(worker, topic, group_id)),
        ]
        await asyncio.sleep(1.0)
        calls.restart()
        await asyncio.sleep(BEFORE)
        before, _ = calls.restart()
        begun = time.perf_counter()
        command = [*_MAIN, "backup", str(target), "--data", str(data), "--json"]
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL)
        assert await process.wait() == 0
        took = time.perf_counter() - begun
        during, count = calls.restart()
        assert count > took, "the clients made no calls"
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        return took, before, during


def main(
    gigabytes: Annotated[float, typer.Option(min=0.001, help="Gigabytes of records.")] = 1.0,
    fsync: Annotated[str, typer.Option(help="As in `serve`: always or everysec.")] = "always",
) -> None:
    """Fill a broker, back it up while clients work, and print the figures."""
    with tempfile.TemporaryDirectory(prefix="sharebroker-bench-") as name:
        data = Path(name) / "data"
        serve = Serve(Path(name), ["--data", str(data), "--max-memory", "0", "--fsync", fsync])
        serve.start()
        try:
            uvloop.run(fill(serve.address, round(gigabytes * 1e9), 1000, 100))
            took, before, during = uvloop.run(measure(serve.address, data, Path(name) / "backup"))
        finally:
            serve.stop()
    typer.echo(f"backup of {gigabytes} GB: {took:.1f} s (aim {MOST_SECONDS:.0f})")
    typer.echo(
        f"longest call of a client: {before:.3f} s before, {during:.3f} s during (aim {LONGEST_PAUSE})"
    )
    if gigabytes >= 1 and (took > MOST_SECONDS or during > LONGEST_PAUSE):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
