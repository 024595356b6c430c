"""Compares the speed of two checkouts in one run, to detect a regression.

`python -m tests.perf.compare --before DIR --after DIR`. In each pair both servers run. Each program drives
them in slices, in the order A B B A; the first one changes with every pair. A row's ratio is the median of
its pairs' ratios, after to before. The servers are started by each checkout's own command. No code of either
is imported, so that packages may have been renamed in between.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Final, Literal, Protocol

import typer
from rich.console import Console

from tests.perf.checkout import HERE, Checkout, NoServer
from tests.perf.kafka.figures import ROWS
from tests.perf.kafka.programs import JAVA_VARIABLES, QUICK, Programs, Sizes, Target
from tests.perf.processes import BenchFailed, interruptible
from tests.perf.report import machine
from tests.perf.servers import Fsync, Serving, serving
from tests.perf.slices import MEASURED, SLICES, each_in_slices
from tests.support.kafka_jars import CLIENTS, SERVER, is_there

Side = Literal["before", "after"]
SIDES: Final[tuple[Side, Side]] = ("before", "after")

TOLERANCE: Final = 0.05
CLIENT_SECONDS: Final = 180.0

RECORDS: Final = 2_000_000
QUICK_RECORDS: Final = 200_000

GRPC: Final[Mapping[str, int]] = {"publish": 1, "each": 1, "range": 1, "waiting": 20, "spread": 10}
"""Programs of the Python client over gRPC, and how many times fewer records each consumes."""

SPREAD: Final = 1000
"""Share-partitions of `spread`."""

LOGIC: Final = "logic"
LOGIC_PROGRAM: Final = """
import json, time
time.perf_counter = time.process_time  # the cores only compute, so time of other processes does not count
from tests.perf import logic
print(json.dumps(logic.measure(20_000)))
"""
"""CPU times of the pure cores, by each checkout's own program."""

KAFKA: Final = (
    "producer",
    "implicit1",
    "implicit4",
    "explicit1",
    "explicit4",
    "commit",
    "single1",
    "single8",
    "idle",
)
"""Programs of Kafka's clients."""

WHOLE: Final = ("idle",)
"""Programs that run once on each side: their clients would change what a second slice measures."""

MORE: Final = ("librdkafka_produce", "librdkafka_consume")
"""Programs that run only when they are selected."""

LABELS: Final = {
    "publish": "Python client: publish in batches",
    "each": "Python client: accept each record, one stream",
    "range": "Python client: accept a poll as a whole",
    "waiting": "Python client: 32 workers, each waits",
    "spread": f"Python client: {SPREAD:,} share-partitions",
    LOGIC: "pure cores",
    "idle": "1,000 idle share consumers",
    **{row.program: row.label for row in ROWS},
}
FIGURES: Final[Mapping[str, tuple[str, bool]]] = {
    "rate": ("records/s", True),
    "p50": ("p50, ms", False),
    "p99": ("p99, ms", False),
    "server_cpu": ("server CPU a record, µs", False),
    "cpu": ("server CPU, % of a core", False),
    "fetch_ack_500": ("fetch and acknowledge 500 records in runs, µs", False),
    "fetch_ack_500_singly": ("fetch and acknowledge 500 records one by one, µs", False),
    "fetch_ack_500_held": ("the same, beside a held record, µs", False),
    "write": ("one state write, µs", False),
    "write_bytes": ("one state write and its bytes, µs", False),
    "delivered": ("until the last one is delivered, ms", False),
}
"""Figures of a program: unit, and whether more is better."""

TIMED: Final = ("commit",)
"""Programs whose p50 is judged; elsewhere it follows from how much is in flight. No p99 is steady enough."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The values of one figure on both sides, in their order."""

    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A row: medians of both sides, the median of the pairs' ratios, and the least and greatest ratio."""

    program: str
    figure: str
    before: float
    after: float
    ratio: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, program: str, figure: str, pairs: Sequence[Pair]) -> Comparison:
        """The comparison of at least one pair; pairs without a figure before do not count."""
        ratios = [pair.after / pair.before for pair in pairs if pair.before]
        return cls(
            program,
            figure,
            median(pair.before for pair in pairs),
            median(pair.after for pair in pairs),
            median(ratios or [1.0]),
            min(ratios, default=1.0),
            max(ratios, default=1.0),
        )

    @property
    def more_is_better(self) -> bool:
        """Whether a ratio above 1 is an improvement."""
        return FIGURES[self.figure][1]

    @property
    def slower(self) -> bool:
        """Whether the row got worse by more than the tolerance."""
        if self.figure == "p99" or (self.figure == "p50" and self.program not in TIMED):
            return False
        return self.ratio < 1 - TOLERANCE if self.more_is_better else self.ratio > 1 + TOLERANCE


Found = dict[tuple[str, str], list[Pair]]
"""Pairs by program and figure."""


def add_pair(found: Found, program: str, sides: Mapping[Side, Mapping[str, float]]) -> None:
    """Keeps the figures of a program on both sides."""
    before, after = sides["before"], sides["after"]
    for figure in FIGURES:
        if figure in before and figure in after:
            found.setdefault((program, figure), []).append(Pair(before[figure], after[figure]))


def comparisons(found: Found) -> list[Comparison]:
    """One comparison per row, in the order of the programs."""
    return [Comparison.of(program, figure, pairs) for (program, figure), pairs in found.items()]


def table(
    rows: Sequence[Comparison],
    heads: Sequence[str] = ("before", "after", "after / before"),
    labels: Mapping[str, str] = LABELS,
) -> str:
    """A Markdown table; `heads` name both sides and their ratio, `labels` the programs."""
    heads = ("", *heads, "range of the pairs", "")
    lines = [f"| {' | '.join(heads)} |", "|---|---:|---:|---:|---:|---|"]
    for row in rows:
        label = f"{labels[row.program]}, {FIGURES[row.figure][0]}"
        cells = (
            label,
            _number(row.before),
            _number(row.after),
            f"{row.ratio:.3f}",
            f"{row.lowest:.2f} to {row.highest:.2f}",
            "**slower**" if row.slower else "",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.2f}"


@dataclass(frozen=True, slots=True)
class Server:
    """One side's server, and the programs that drive it. `records` are those of a slice."""

    checkout: Checkout
    serving: Serving
    programs: Programs
    records: int

    def run(self, name: str, number: int) -> Mapping[str, float]:
        """Runs a slice of a program. Raises BenchFailed."""
        if name == LOGIC:
            return self._own(name, "-c", LOGIC_PROGRAM)
        return self._python_client(name, number) if name in GRPC else self.programs.run(name)

    def _python_client(self, case: str, number: int) -> Mapping[str, float]:
        """Runs the checkout's own benchmark client: the client is part of what is compared.

        Each slice has a topic of its own, which its `publish` fills.
        """
        records = self.records // GRPC[case]
        work: dict[str, object] = {"address": self.serving.address, "topic": f"grpc-{number}"}
        work |= {"group": f"{case}-{number}", "records": records, "partitions": 1}
        if case == "spread":
            work |= {"topic": f"{case}-{number}", "partitions": SPREAD}
        before = self.serving.cpu_seconds()
        figures = self._own(case, "-m", "tests.perf.clients", case, json.dumps(work))
        used = self.serving.cpu_seconds() - before
        return {**figures, "server_cpu": used / records * 1e6, MEASURED: records}

    def _own(self, case: str, *words: str) -> Mapping[str, float]:
        """Runs a program of the checkout; its figures without the case's name."""
        command = [self.checkout.python, *words]
        try:
            done = subprocess.run(
                command,
                cwd=self.checkout.folder,
                env=self.checkout.environment(),
                capture_output=True,
                text=True,
                timeout=CLIENT_SECONDS,
                check=True,
            )
        except subprocess.CalledProcessError as failure:
            lines = str(failure.stderr).strip().splitlines()
            raise BenchFailed(f"{case}: {lines[-1] if lines else failure}") from None
        except subprocess.TimeoutExpired:
            raise BenchFailed(f"{case}: not done after {CLIENT_SECONDS:g} s") from None
        figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
        return {short(key): value for key, value in figures.items()}


def short(key: str) -> str:
    """The name of a client program's figure without its case: "each.ack_p50" is "p50"."""
    case, _, name = key.partition(".")
    return "rate" if case == "partitions" else name.removeprefix("ack_")


Outcomes = Iterator[tuple[str, Mapping[Side, Mapping[str, float]] | BenchFailed]]


@dataclass(frozen=True, slots=True)
class Plan:
    """Selects two checkouts, a durability, the amount of work, and the programs."""

    checkouts: Mapping[Side, Checkout]
    fsync: Fsync
    sizes: Sizes
    records: int
    names: Sequence[str]

    def pair(self, folder: Path, order: Sequence[Side]) -> Outcomes:
        """One pair: both servers in fresh folders, and each program on both, in slices.

        A program that fails on either side has no figures. Raises BenchFailed when a server does not start.
        """
        with ExitStack() as stack:
            servers = {side: stack.enter_context(self._server(side, folder / side)) for side in order}
            yield from each_in_slices(servers, self.names, order, WHOLE)

    @contextmanager
    def _server(self, side: Side, folder: Path) -> Iterator[Server]:
        folder.mkdir()
        checkout, options = self.checkouts[side], ("--kafka", "127.0.0.1:0")
        with serving(folder, self.fsync, checkout=checkout, options=options) as running:
            programs = Programs(Target(running.kafka, (running.pid,)), self.sizes.divided(SLICES))
            if wanted := [name for name in self.names if name not in (*GRPC, LOGIC)]:
                programs.prepare(wanted)
            yield Server(checkout, running, programs, self.records // SLICES)


def chosen(only: Sequence[str], with_kafka: bool) -> list[str]:
    """The programs to run, in their order. Those over gRPC read what `publish` has published."""
    kafka = [*KAFKA, *(name for name in MORE if name in only)] if with_kafka else []
    names = [name for name in (LOGIC, *GRPC, *kafka) if not only or name in only]
    return ["publish", *names] if "publish" not in names and not GRPC.keys().isdisjoint(names) else names


def main(
    before: Annotated[Path, typer.Option(help="A checkout, as it was.")],
    after: Annotated[Path, typer.Option(help="A checkout, as it is now.")] = HERE.folder,
    pairs: Annotated[int, typer.Option(min=1, max=50, help="Pairs; the table has their medians.")] = 5,
    fsync: Annotated[str, typer.Option(help="everysec or always.")] = "everysec",
    quick: Annotated[bool, typer.Option(help="One short pair: does it work?")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help=f"Only these programs, of {', '.join((LOGIC, *GRPC, *KAFKA, *MORE))}."),
    ] = None,
) -> None:
    """Compare two checkouts; exit code 1 when a row is slower by more than 5 %, or something failed."""
    progress = Console(stderr=True)
    for variable in JAVA_VARIABLES:
        os.environ.pop(variable, None)
    try:
        checkouts: dict[Side, Checkout] = {"before": Checkout.at(before), "after": Checkout.at(after)}
    except NoServer as missing:
        progress.print(str(missing))
        raise typer.Exit(2) from None
    with_kafka = is_there(SERVER) and is_there(CLIENTS["4.3.1"])
    if not with_kafka:
        progress.print("Kafka's clients are skipped, since their jars are missing: make kafka")
    plan = Plan(
        checkouts,
        "always" if fsync == "always" else "everysec",
        QUICK if quick else Sizes(),
        QUICK_RECORDS if quick else RECORDS,
        chosen(only or (), with_kafka),
    )
    found, failures = measure(plan, 1 if quick else pairs, progress)
    rows = comparisons(found)
    revisions = " → ".join(f"{side} {checkouts[side].revision()}" for side in SIDES)
    typer.echo(f"{revisions}, --fsync {plan.fsync}, medians of {1 if quick else pairs} pairs. {machine()}\n")
    typer.echo(table(rows))
    for failure in failures:
        typer.echo(f"failed: {failure}")
    raise typer.Exit(1 if failures or any(row.slower for row in rows) else 0)


class Paired(Protocol):
    """Runs pairs of servers."""

    def pair(self, folder: Path, order: Sequence[Side]) -> Outcomes:
        """One pair in a folder; the first side of the order is the first one in each program."""


def measure(plan: Paired, pairs: int, progress: Console) -> tuple[Found, list[str]]:
    """Runs pairs in alternating order; returns the figures, and what failed."""
    found: Found = {}
    failures: list[str] = []
    with interruptible():
        for turn in range(pairs):
            order = SIDES if turn % 2 == 0 else SIDES[::-1]
            with tempfile.TemporaryDirectory(prefix="sharebroker-bench-") as folder:
                try:
                    for name, sides in plan.pair(Path(folder), order):
                        if isinstance(sides, BenchFailed):
                            failures.append(f"pair {turn + 1}, {name}: {sides}")
                        else:
                            add_pair(found, name, sides)
                        progress.print(f"pair {turn + 1} of {pairs}: {name}", style="dim")
                except BenchFailed as failure:
                    failures.append(f"pair {turn + 1}: {failure}")
    return found, failures


if __name__ == "__main__":
    typer.run(main)
