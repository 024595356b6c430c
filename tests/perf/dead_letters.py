"""`make bench-dead-letters`: what dead letters cost, and whether a server's memory stays flat in a flood.

The flood rejects 20,000 records a second, each with a letter, for a minute. Then programs consume on two
servers in slices, in the order A B B A. One server has no dead letters (`share.version` 1). On the other one
no record fails, or every 2,000th does while its dead letter topic is not writable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Annotated, Final

import typer
from rich.console import Console

from sharebroker.admin_model import LATEST
from sharebroker.aio import Admin
from sharebroker_protocol.model import TopicPartition
from tests.perf.clients import Work
from tests.perf.compare import LABELS, Comparison, Outcomes, Side, comparisons, measure, short, table
from tests.perf.processes import BenchFailed, run_client
from tests.perf.procfs import PAGE_BYTES, PROC, Stat
from tests.perf.report import machine
from tests.perf.servers import Serving, serving
from tests.perf.slices import MEASURED, SLICES, in_slices

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
RECORDS: Final = 1_000_000
QUICK_RECORDS: Final = 100_000
CLIENT_SECONDS: Final = 180.0

GROWTH: Final = 1.1
GROWTH_BYTES: Final = 16 << 20
"""Memory may grow by a tenth and this much, from a third of the flood to its end."""

LEVEL_1: Final = ("--feature", "share.version=1")


@dataclass(frozen=True, slots=True)
class Row:
    """What happens on the second server: the topic of the letters, and which records fail.

    The ratio of rates must reach `aim`.
    """

    letters: str
    reject_every: int
    heads: tuple[str, str, str]
    aim: float


ROWS: Final[Mapping[str, Row]] = {
    "idle": Row(LETTERS, 0, ("no dead letters", "nothing fails", "enabled / none"), 0.97),
    "away": Row(AWAY, REJECT_EVERY, ("no dead letters", "topic away", "away / none"), 0.9),
}
PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {"idle": ("range", "each"), "away": ("each",)}
ROW_LABELS: Final = {f"{row} {name}": LABELS[name] for row, names in PROGRAMS.items() for name in names}


@dataclass(frozen=True, slots=True)
class Plan:
    """The number of records that a program consumes."""

    records: int

    def pair(self, folder: Path, order: Sequence[Side]) -> Outcomes:
        """One pair: each program on both servers, in slices. Raises BenchFailed."""
        with ExitStack() as stack:
            runs = {side: stack.enter_context(self._server(side, folder / side)) for side in order}
            for name in ROW_LABELS:
                try:
                    yield name, in_slices(runs, name, order)
                except BenchFailed as failure:
                    yield name, failure

    @contextmanager
    def _server(self, side: Side, folder: Path) -> Iterator[Driven]:
        folder.mkdir()
        with serving(folder, "everysec", options=() if side == "after" else LEVEL_1) as server:
            driven = Driven(server, side == "after", self.records // SLICES)
            client("publish", Work(server.address, TOPIC, records=driven.records, partitions=PARTITIONS))
            if driven.enabled:
                asyncio.run(prepare(server.address))
            yield driven


@dataclass(frozen=True, slots=True)
class Driven:
    """A server, and whether it has dead letters. `records` are those of a slice."""

    serving: Serving
    enabled: bool
    records: int

    def run(self, name: str, number: int) -> dict[str, float]:
        """Runs a slice of a program with a new group; returns its figures, with CPU in µs a record."""
        row, case = name.split()
        group = f"{row}-{case}-{number}"
        rejected = 0
        if self.enabled:
            asyncio.run(give_letters(self.serving.address, group, ROWS[row].letters))
            rejected = ROWS[row].reject_every
        before = self.serving.cpu_seconds()
        work = Work(self.serving.address, TOPIC, group, self.records, reject_every=rejected)
        figures = client(case, work)
        used = self.serving.cpu_seconds() - before
        return figures | {"server_cpu": used / self.records * 1e6, MEASURED: self.records}


def client(case: str, work: Work) -> dict[str, float]:
    """Runs a client program; returns its figures. Raises BenchFailed."""
    figures = run_client(case, asdict(work), CLIENT_SECONDS)
    return {short(key): value for key, value in figures.items()}


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
        client("publish", Work(server.address, TOPIC, records=records, partitions=PARTITIONS))
        asyncio.run(prepare(server.address))
        asyncio.run(give_letters(server.address, "flood", LETTERS))
        with sampled(server.pid) as memory:
            work = Work(server.address, TOPIC, "flood", records, pace=PACE, reject_every=1)
            rate = client("paced", work)["rate"]
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


# The report


def below_aims(rows: Sequence[Comparison]) -> list[str]:
    """Returns a sentence for each rate whose ratio is below the aim of its row."""
    return [
        f"{ROW_LABELS[row.program]}, {row.program.split()[0]}: {row.ratio:.3f} is below {aim}"
        for row in rows
        if row.figure == "rate" and row.ratio < (aim := ROWS[row.program.split()[0]].aim)
    ]


def tables(rows: Sequence[Comparison]) -> str:
    """Returns one table per row, with the names of its sides."""
    return "\n\n".join(
        table([row for row in rows if row.program.split()[0] == name], of.heads, ROW_LABELS)
        for name, of in ROWS.items()
    )


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
    number = 1 if quick else pairs
    found, failures = measure(Plan(QUICK_RECORDS if quick else RECORDS), number, Console(stderr=True))
    rows = [row for row in comparisons(found) if row.figure in ("rate", "server_cpu")]
    typer.echo(f"--fsync everysec, medians of {number} pairs. {machine()}\n\n{tables(rows)}\n")
    missed = [] if quick else [*flooded.missed, *below_aims(rows)]
    for failure in (*failures, *missed):
        typer.echo(f"failed: {failure}")
    raise typer.Exit(1 if failures or missed else 0)


if __name__ == "__main__":
    typer.run(main)
