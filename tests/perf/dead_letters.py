"""`make bench-dead-letters`: what dead letters cost, and whether a server's memory stays flat in a flood.

The flood rejects 20,000 records a second, each with a letter, for a minute. Then programs consume on two
servers in slices, in the order A B B A. One server has no dead letters (`share.version` 1). On the other one
no record fails, or every 2,000th does while its dead letter topic is not writable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Annotated, Final

import typer

from sharebroker.admin_model import LATEST
from sharebroker.aio import Admin
from sharebroker_protocol.model import TopicPartition
from tests.perf.clients import Work
from tests.perf.compare import LABELS, Side
from tests.perf.processes import BenchFailed
from tests.perf.procfs import PAGE_BYTES, PROC, Stat
from tests.perf.rows import Pairs, Row, Rows, below_aims, run_program, run_slice, server_in
from tests.perf.servers import Serving, serving
from tests.perf.slices import SLICES

TOPIC: Final = "orders"
LETTERS: Final = "dlq.orders"
AWAY: Final = "dlq.away"
PARTITIONS: Final = 4

PACE: Final = 20_000
"""Rejected records a second in the flood."""

FLOOD_SECONDS: Final = 60
QUICK_FLOOD_SECONDS: Final = 5
LETTER_SECONDS: Final = 60.0
"""Seconds in which the last letters must be written."""

REJECT_EVERY: Final = 2000
RECORDS: Final = 4_000_000
QUICK_RECORDS: Final = 100_000
PAIR_SECONDS: Final = 150.0
QUICK_PAIR_SECONDS: Final = 45.0
"""The time that a pair takes on two cores."""

GROWTH: Final = 1.1
GROWTH_BYTES: Final = 16 << 20
"""Memory may grow by a tenth and this much, from a third of the flood to its end."""

LEVEL_1: Final = ("--feature", "share.version=1")


ROWS: Final[Rows] = {
    "idle": Row(
        ("no dead letters", "nothing fails", "enabled / none"),
        0.97,
        {case: LABELS[case] for case in ("range", "each")},
    ),
    "away": Row(("no dead letters", "topic away", "away / none"), 0.9, {"each": LABELS["each"]}),
}
"""On the second server of `away` records fail, and their topic is not writable."""


@contextmanager
def started(records: int, side: Side, folder: Path) -> Iterator[Driven]:
    """Starts the server of a side; its programs consume this many records."""
    enabled = side == "after"
    with server_in(folder, () if enabled else LEVEL_1) as server:
        driven = Driven(server, enabled, records // SLICES)
        run_program("publish", Work(server.address, TOPIC, records=driven.records, partitions=PARTITIONS))
        if enabled:
            asyncio.run(prepare(server.address))
        yield driven


@dataclass(frozen=True, slots=True)
class Driven:
    """A server, and whether it has dead letters. `records` are those of a slice."""

    serving: Serving
    enabled: bool
    records: int

    def run(self, name: str, number: int) -> dict[str, float]:
        """Runs a slice of a program with a new group; returns its figures."""
        row, case = name.split()
        work = Work(self.serving.address, TOPIC, f"{row}-{case}-{number}", self.records)
        if self.enabled:
            away = row == "away"
            asyncio.run(give_letters(work.address, work.group, AWAY if away else LETTERS))
            work = replace(work, reject_every=REJECT_EVERY if away else 0)
        return run_slice(self.serving, case, work)


async def prepare(address: str) -> None:
    """Creates the dead letter topics; one of them is not enabled, so that its letters are held."""
    async with Admin(address) as admin:
        await admin.create_topic(LETTERS, PARTITIONS, {"errors.deadletterqueue.group.enable": "true"})
        await admin.create_topic(AWAY, PARTITIONS)


async def give_letters(address: str, group: str, topic: str) -> None:
    """Sets the dead letter topic of a group."""
    async with Admin(address) as admin:
        await admin.alter_group_configs(group, {"errors.deadletterqueue.topic.name": topic})


# The flood


@dataclass(frozen=True, slots=True)
class Flood:
    """The outcome: rejected records a second, seconds until the last letter, and the server's memory."""

    rate: float
    letter_seconds: float
    memory: Sequence[int]
    """Bytes of the server's process, without those of Valkey, once a second."""

    @property
    def early(self) -> int:
        """Bytes after a third of the flood: before, the window of records and the caches fill."""
        return max(self.memory[: len(self.memory) // 3 + 1])

    @property
    def missed(self) -> list[str]:
        """Returns a sentence for each aim that the flood missed."""
        end, most = self.memory[-1], self.early * GROWTH + GROWTH_BYTES
        grown = f"flood: memory grew from {self.early >> 20} to {end >> 20} MiB"
        slow = f"flood: {self.rate:,.0f} rejected records a second are below {0.95 * PACE:,.0f}"
        return [*([grown] if end > most else []), *([slow] if self.rate < 0.95 * PACE else [])]

    def __str__(self) -> str:
        return (
            f"Flood: {self.rate:,.0f} rejected records/s, the last letter {self.letter_seconds:.1f} s later; "
            f"server {self.early >> 20} → {self.memory[-1] >> 20} MiB."
        )


def flood(folder: Path, seconds: int) -> Flood:
    """Rejects PACE records a second. Raises BenchFailed, also if letters are missing in the end."""
    records = PACE * seconds
    with serving(folder, "everysec") as server:
        run_program("publish", Work(server.address, TOPIC, records=records, partitions=PARTITIONS))
        asyncio.run(prepare(server.address))
        asyncio.run(give_letters(server.address, "flood", LETTERS))
        with sampled(server.pid) as memory:
            work = Work(server.address, TOPIC, "flood", records, pace=PACE, reject_every=1)
            rate = run_program("paced", work)["rate"]
            after = asyncio.run(all_written(server.address, records))
        return Flood(rate, after, memory)


async def all_written(address: str, letters: int) -> float:
    """Returns the seconds until the topic has this many letters. Raises BenchFailed."""
    begun = time.monotonic()
    places = [TopicPartition(LETTERS, number) for number in range(PARTITIONS)]
    async with Admin(address) as admin:
        while True:
            found = sum(end or 0 for end in (await admin.list_offsets(places, LATEST)).values())
            waited = time.monotonic() - begun
            if found >= letters:
                return waited
            if waited > LETTER_SECONDS:
                raise BenchFailed(f"{found:,} of {letters:,} letters are written")
            await asyncio.sleep(0.1)


@contextmanager
def sampled(pid: int) -> Iterator[Sequence[int]]:
    """Provides the resident bytes of a process, once a second and at the end."""
    samples: list[int] = []
    ended = Event()

    def sample() -> None:
        samples.append(Stat.parse((PROC / str(pid) / "stat").read_text()).rss_pages * PAGE_BYTES)

    def run() -> None:
        sample()
        while not ended.wait(1.0):
            sample()

    thread = Thread(target=run)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()
        sample()


def main(
    pairs: Annotated[int, typer.Option(min=1, max=50, help="Pairs; the tables have their medians.")] = 5,
    quick: Annotated[bool, typer.Option(help="A flood of five seconds, and one short pair.")] = False,
) -> None:
    """Measure dead letters; exit code 1 below an aim, or on failure."""
    with TemporaryDirectory(prefix="sharebroker-flood-") as folder:
        try:
            flooded = flood(Path(folder), QUICK_FLOOD_SECONDS if quick else FLOOD_SECONDS)
        except BenchFailed as error:
            typer.echo(f"failed: flood: {error}")
            raise typer.Exit(1) from error
    typer.echo(f"{flooded}\n")
    compared = Pairs(ROWS, partial(started, QUICK_RECORDS if quick else RECORDS))
    found, failures = compared.run(1 if quick else pairs, QUICK_PAIR_SECONDS if quick else PAIR_SECONDS)
    missed = [] if quick else [*flooded.missed, *below_aims(ROWS, found)]
    for failure in (*failures, *missed):
        typer.echo(f"failed: {failure}")
    raise typer.Exit(1 if failures or missed else 0)


if __name__ == "__main__":
    typer.run(main)
