"""`make bench`: how fast it is, beside raw Redis on the same machine in the same run.

Every run starts its own servers in fresh folders and ends them by their ids; medians of several runs.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from tests.perf import logic, raw_redis, report
from tests.perf.clients import Work
from tests.perf.figures import Figures, derived, percentile
from tests.perf.processes import BenchFailed, run_client
from tests.perf.servers import Fsync, Serving, fsync_seconds, raw_valkey, serving

CLIENT_SECONDS: Final = 90.0
DURABILITIES: Final[tuple[Fsync, ...]] = ("everysec", "always")
RECORD_BYTES: Final = 100
PACE: Final = 50_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """Number of records of each case, and repetitions of the short cases."""

    records: int = 400_000
    waiting: int = 60_000
    raw: int = 100_000
    raw_waiting: int = 10_000
    per_partition: int = 200
    partitions: int = 1000
    first: int = 10
    logic: int = 2000


QUICK: Final = Sizes(100_000, 15_000, 30_000, 3_000, 100, 1000, 5, 500)


SERVED: Final = ("publish", "each", "paced", "range", "waiting", "first", "spread")
ALL: Final = ("logic", "raw", *SERVED)


@dataclass(frozen=True, slots=True)
class Options:
    """The cases to measure; `profile` is a folder for cProfile's files."""

    sizes: Sizes
    cases: frozenset[str]
    profile: Path | None

    def wants(self, case: str) -> bool:
        """Whether a case is measured. `publish` is, when another case consumes its records."""
        return case in self.cases or (case == "publish" and not self.cases.isdisjoint(SERVED))


class Run:
    """One run at one durability. A case that fails has no figures; its error is kept in `failures`."""

    def __init__(self, fsync: Fsync, options: Options) -> None:
        self._fsync = fsync
        self._options = options
        self._sizes = options.sizes
        self.figures: dict[str, float] = {}
        self.failures: list[str] = []

    def measure(self, folder: Path) -> None:
        """Runs the selected cases, one after the other."""
        wants = self._options.wants
        self._take("fsync", lambda: _fsync_figures(folder))
        if wants("logic") and self._fsync == report.HELD_TO:
            self._take("logic", lambda: logic.measure(self._sizes.logic))
        if wants("raw"):
            self._take("raw", lambda: asyncio.run(self._raw(folder)))
        if any(wants(case) for case in SERVED):
            self._take("serve", lambda: self._served(folder))

    async def _raw(self, folder: Path) -> Figures:
        sizes = self._sizes
        gc.freeze()  # its threads run in this process; the clients do the same
        async with raw_valkey(folder, self._fsync) as url:
            return await asyncio.to_thread(raw_redis.measure, url, sizes.raw, sizes.raw_waiting, RECORD_BYTES)

    def _served(self, folder: Path) -> Figures:
        with serving(folder, self._fsync, self._profile("server")) as server:
            for case, work in self._works(server.address):
                if self._options.wants(case):
                    self._take(case, partial(self._client, server, case, work))
        return {}

    def _works(self, address: str) -> Iterator[tuple[str, Work]]:
        """The client programs in their order: the later ones consume what `publish` published."""
        sizes = self._sizes
        work = Work(address, "bench", records=sizes.records, record_bytes=RECORD_BYTES)
        yield "publish", work
        yield "each", replace(work, group="each")
        yield "paced", replace(work, group="paced", records=min(sizes.records, 2 * PACE), pace=PACE)
        yield "range", replace(work, group="range")
        yield "waiting", replace(work, group="waiting", records=sizes.waiting)
        yield "first", replace(work, group="first", rounds=sizes.first)
        spread = sizes.partitions * sizes.per_partition
        for partitions in (1, sizes.partitions):
            topic = f"spread-{partitions}"
            yield "spread", replace(work, topic=topic, group=topic, records=spread, partitions=partitions)

    def _client(self, server: Serving, case: str, work: Work) -> Figures:
        before = server.cpu_seconds()
        figures = run_client(case, asdict(work), CLIENT_SECONDS, self._profile(case))
        used = server.cpu_seconds() - before
        return {**figures, f"{case}.server_cpu": used / work.records * 1e6} if used else figures

    def _profile(self, name: str) -> Path | None:
        folder = self._options.profile
        return folder / f"{name}-{self._fsync}.prof" if folder else None

    def _take(self, case: str, measured: Callable[[], Figures]) -> None:
        try:
            self.figures.update(measured())
        except BenchFailed as failure:
            self.failures.append(f"{case}, appendfsync {self._fsync}: {failure}")


def _fsync_figures(folder: Path) -> Figures:
    took = fsync_seconds(folder)
    return {"fsync.p50": percentile(took, 0.5) * 1e3, "fsync.p99": percentile(took, 0.99) * 1e3}


def main(
    runs: Annotated[int, typer.Option(min=1, max=20, help="Runs; the table has their medians.")] = 3,
    quick: Annotated[bool, typer.Option(help="One short run: is it about right?")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, every run with it.")] = False,
    only: Annotated[list[str] | None, typer.Option(help=f"Only these of: {', '.join(ALL)}.")] = None,
    fsync: Annotated[list[str] | None, typer.Option(help="Only everysec, or only always.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where the servers write; a disk, not memory.")] = None,
    profile: Annotated[Path | None, typer.Option(help="Run under cProfile and put its files here.")] = None,
) -> None:
    """Measure, and print the figures beside their aims."""
    options = Options(QUICK if quick else Sizes(), frozenset(only or ALL), profile)
    if profile is not None:
        profile.mkdir(parents=True, exist_ok=True)
    progress = Console(stderr=True)
    results: dict[Fsync, list[Figures]] = {}
    failures: list[str] = []
    for turn in range(1 if quick else runs):
        for durability in DURABILITIES:
            if fsync and durability not in fsync:
                continue
            progress.print(f"run {turn + 1}, appendfsync {durability}", style="dim")
            run = Run(durability, options)
            with tempfile.TemporaryDirectory(prefix="sharebroker-bench-", dir=folder) as place:
                run.measure(Path(place))
            results.setdefault(durability, []).append(derived(run.figures, durability == "always"))
            failures += run.failures
    if as_json:
        typer.echo(report.as_json(results, failures))
    else:
        report.show(results, failures, Console(width=None if progress.is_terminal else 160))
    raise typer.Exit(1 if failures else 0)


if __name__ == "__main__":
    typer.run(main)
