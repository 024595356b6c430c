"""`make bench-dead-letters`: what dead letters cost, and whether a server's memory stays flat in a flood.

The flood rejects 20,000 records a second, each with a letter, for a minute. Then programs consume on two
servers in slices, in the order A B B A. One server has no dead letters (`share.version` 1). On the other one
no record fails, or every 2,000th does while its dead letter topic is not writable.

`--away MINUTES` does something else: the dead letter topic is deleted for that time while ten records a
second of each share-partition are rejected. Then it is created again, and must receive each letter once.
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
from tests.perf.rows import CLIENT_SECONDS, Pairs, Row, Rows, below_aims, run_program, run_slice, server_in
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

AWAY_PACE: Final = 800
AWAY_REJECT_EVERY: Final = 20
"""Ten rejected records a second in each of the partitions."""

AWAY_MINUTES: Final = 15
"""The most minutes: a share-partition delivers no records while 10,000 archive."""

AWAY_AIM: Final = 0.9
"""The part of the pace that must be kept."""

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
    await create(address)
    async with Admin(address) as admin:
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


@dataclass(frozen=True, slots=True)
class Absence:
    """The outcome: records a second without the topic, and seconds from its creation to the last letter."""

    rate: float
    rejected: int
    letter_seconds: float
    memory: Sequence[int]
    """Bytes as in a flood."""

    @property
    def missed(self) -> list[str]:
        """Returns a sentence if the pace was missed."""
        least = AWAY_AIM * AWAY_PACE
        return [f"away: {self.rate:,.0f} records a second are below {least:,.0f}"] * (self.rate < least)

    def __str__(self) -> str:
        return (
            f"Topic away: {self.rate:,.0f} records/s; {self.rejected:,} rejected ones have one letter each, "
            f"the last {self.letter_seconds:.1f} s after the topic was created; server "
            f"{self.memory[0] >> 20} → {self.memory[-1] >> 20} MiB."
        )


def absence(folder: Path, minutes: int) -> Absence:
    """Rejects records while the dead letter topic is deleted.

    Raises BenchFailed, also if a letter is missing or was written twice.
    """
    records = AWAY_PACE * 60 * minutes
    with serving(folder, "everysec") as server:
        run_program("publish", Work(server.address, TOPIC, records=records, partitions=PARTITIONS))
        asyncio.run(prepare(server.address))
        asyncio.run(give_letters(server.address, "absence", LETTERS))
        asyncio.run(delete(server.address))
        work = Work(
            server.address,
            TOPIC,
            "absence",
            records,
            partitions=PARTITIONS,
            pace=AWAY_PACE,
            reject_every=AWAY_REJECT_EVERY,
        )
        with sampled(server.pid) as memory:
            rate = run_program("paced", work, 60.0 * minutes + CLIENT_SECONDS)["rate"]
            asyncio.run(create(server.address))
            rejected = asyncio.run(rejected_records(server.address))
            after = asyncio.run(all_written(server.address, rejected, "absence"))
        return Absence(rate, rejected, after, memory)


async def delete(address: str) -> None:
    """Deletes the dead letter topic."""
    async with Admin(address) as admin:
        await admin.delete_topic(LETTERS)


async def create(address: str) -> None:
    """Creates the dead letter topic, which groups may use."""
    async with Admin(address) as admin:
        await admin.create_topic(LETTERS, PARTITIONS, {"errors.deadletterqueue.group.enable": "true"})


async def rejected_records(address: str) -> int:
    """Returns how many records of the topic a program with AWAY_REJECT_EVERY rejects."""
    async with Admin(address) as admin:
        ends = await admin.list_offsets(
            [TopicPartition(TOPIC, number) for number in range(PARTITIONS)], LATEST
        )
    return sum(-(-(end or 0) // AWAY_REJECT_EVERY) for end in ends.values())


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


async def all_written(address: str, letters: int, group: str = "") -> float:
    """Returns the seconds until the topic has this many letters, and no record of `group` waits for its own.

    Raises BenchFailed, also if there are more letters.
    """
    begun = time.monotonic()
    places = [TopicPartition(LETTERS, number) for number in range(PARTITIONS)]
    async with Admin(address) as admin:
        while True:
            offsets = await admin.group_offsets(group) if group else {}
            found = sum(end or 0 for end in (await admin.list_offsets(places, LATEST)).values())
            waited = time.monotonic() - begun
            if found > letters:
                raise BenchFailed(f"{found:,} letters are written for {letters:,} records")
            if found == letters and not any(each.lag for each in offsets.values()):
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
    away: Annotated[
        int,
        typer.Option(
            min=0,
            max=AWAY_MINUTES,
            help="Only: delete the dead letter topic for so many minutes.",
            metavar="MINUTES",
        ),
    ] = 0,
) -> None:
    """Measure dead letters; exit code 1 below an aim, or on failure."""
    if away:
        measure_absence(away)
        return
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


def measure_absence(minutes: int) -> None:
    """Prints the outcome of `absence`; exit code 1 below the aim, or on failure."""
    with TemporaryDirectory(prefix="sharebroker-away-") as folder:
        try:
            outcome = absence(Path(folder), minutes)
        except BenchFailed as error:
            typer.echo(f"failed: away: {error}")
            raise typer.Exit(1) from error
    typer.echo(outcome)
    for failure in outcome.missed:
        typer.echo(f"failed: {failure}")
    raise typer.Exit(1 if outcome.missed else 0)


if __name__ == "__main__":
    typer.run(main)
