"""`make bench-export`: moves records and groups in mid-work to another cluster, and finishes the work there.

Each group has a topic of its own. It accepts half of the records, holds some, and has released some. Then the
data is exported while the server runs, and imported into a new data folder. Both servers verify each group.
In the new one all other records arrive, each once. The program fails if one is missing or arrives twice, or
if a rate is below the aim.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import uvloop

from sharebroker_protocol.gateway.v1 import produce_pb2 as produce
from tests.support.client import RELEASE, Client, connected
from tests.testkit.brokers import Serve

AIM: Final = 200_000
"""Records a second, of an export and of an import."""

BATCH: Final = 500
FETCH: Final = 1_000
HELD: Final = 300
SECONDS: Final = 60.0
_MAIN: Final = [sys.executable, "-c", "from sharebroker.cli import main; main()"]


@dataclass
class Work:
    """A group and its topic: which records it accepted, and how often it received the others afterwards."""

    group_id: str
    topic: str
    records: int
    accepted: set[bytes] = field(default_factory=set)

    async def publish(self, client: Client, size: int) -> None:
        """Publishes the records; each has its number as value, padded to `size` bytes."""
        for start in range(0, self.records, BATCH):
            values = (str(number).encode().ljust(size, b".") for number in range(start, start + BATCH))
            records = [produce.PublishRecord(value=value, partition=(start // BATCH) % 2) for value in values]
            request = produce.PublishRequest(topic=self.topic, records=records)
            await client.produce.Publish(request, timeout=SECONDS)

    async def begin(self, client: Client) -> None:
        """Accepts half of the records, releases some and holds some."""
        while len(self.accepted) < self.records // 2:
            await self._accept(client, "early")
        response = await client.acquire(self.group_id, self.topic, HELD, member="early", timeout=SECONDS)
        await client.acknowledge(self.group_id, "early", response.records[::2], RELEASE, timeout=SECONDS)

    async def finish(self, client: Client) -> None:
        """Accepts the other records. Raises AssertionError if one arrives twice, or none for a minute."""
        last = time.monotonic()
        while len(self.accepted) < self.records:
            if await self._accept(client, "late"):
                last = time.monotonic()
            assert time.monotonic() - last < SECONDS, (
                f"{self.group_id}: {len(self.accepted)} of {self.records}"
            )
        assert not await self._accept(client, "late"), "a record arrived twice"

    async def _accept(self, client: Client, member: str) -> int:
        response = await client.acquire(
            self.group_id, self.topic, FETCH, member=member, wait=1.0, timeout=SECONDS
        )
        values = {record.text.encode() for record in response.records}
        assert not values & self.accepted, "a record arrived twice"
        results = await client.acknowledge(self.group_id, member, response.records, timeout=SECONDS)
        assert set(results) <= {0}
        self.accepted |= values
        return len(values)


def run(*words: str) -> tuple[dict[str, Any], float]:
    """Runs a command; returns its result and the seconds that it took."""
    begun = time.perf_counter()
    done = subprocess.run([*_MAIN, *words, "--json"], capture_output=True, text=True, check=False)
    took = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr or done.stdout}")
    return json.loads(done.stdout), took


async def each(works: Iterable[Work], step: Callable[[Work], Awaitable[None]]) -> None:
    """Runs a step of all works at the same time."""
    await asyncio.gather(*map(step, works))


async def prepare(address: str, groups: int, records: int, size: int) -> list[Work]:
    """Publishes, and leaves all groups in mid-work."""
    async with connected(address) as client:
        works = []
        for _ in range(groups):
            topic, _ = await client.create(2)
            group_id = await client.group(share_record_lock_duration_ms="60000")
            works.append(Work(group_id, topic, records // groups // BATCH * BATCH))
        await each(works, lambda work: work.publish(client, size))
        await each(works, lambda work: work.begin(client))
        return works


async def finish(address: str, works: list[Work]) -> None:
    """Finishes the work of all groups."""
    async with connected(address) as client:
        await each(works, lambda work: work.finish(client))


def verify(address: str, works: list[Work]) -> None:
    """Verifies every group. Exits if one is inconsistent."""
    for work in works:
        run("verify", work.group_id, "--server", address)


def main(
    records: Annotated[int, typer.Option(min=10_000, help="Records of all topics.")] = 1_000_000,
    groups: Annotated[int, typer.Option(min=1, help="Groups, each with a topic.")] = 20,
    size: Annotated[int, typer.Option(min=20, help="Bytes of a record.")] = 100,
) -> None:
    """Export, import, and finish the work; print the figures."""
    with tempfile.TemporaryDirectory(prefix="sharebroker-bench-") as name:
        folder = Path(name)
        first, second = (
            Serve(folder, ["--data", str(folder / data), "--max-memory", "0"], data)
            for data in ("one", "two")
        )
        first.start()
        try:
            works = uvloop.run(prepare(first.address, groups, records, size))
            total = sum(work.records for work in works)
            result, exporting = run("export", str(folder / "archive"), "--data", str(folder / "one"))
            assert (result["records"], result["groups"]) == (total, groups), result
            verify(first.address, works)
        finally:
            first.stop()
        result, importing = run(
            "import", str(folder / "archive"), "--data", str(folder / "two"), "--max-memory", "0"
        )
        assert (result["records"], result["groups"]) == (total, groups), result
        second.start()
        try:
            verify(second.address, works)
            uvloop.run(finish(second.address, works))
            verify(second.address, works)
        finally:
            second.stop()
        typer.echo(f"{total:,} records of {size} bytes, {groups} groups in mid-work")
        rates = {"export": total / exporting, "import": total / importing}
        for command, rate in rates.items():
            typer.echo(f"{command:8} {total / rate:8.1f} s {rate:12,.0f} records/s (aim {AIM:,})")
        typer.echo("every group verified before and after; every record was finished once")
        if min(rates.values()) < AIM and records >= 1_000_000:
            raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
