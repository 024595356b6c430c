"""`make bench-processes`: the cost of `serve --processes N`, as ratios to one process of interleaved pairs.

In each pair both servers run, each with its own embedded Valkey. Each program drives them in slices, in the
order A B B A; the first one changes with every pair. The CPU per record is what counts: on few cores, clients
and both servers share the machine, so that the rates do not show what more cores give.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from tests.perf.clients import Work
from tests.perf.compare import Outcomes, Side
from tests.perf.kafka.programs import Programs, Sizes, Target
from tests.perf.listeners import Driven, amounts, available, compare
from tests.perf.servers import serving
from tests.perf.slices import SLICES, each_in_slices

GRPC: Final = ("publish", "range", "each")
KAFKA: Final = ("producer", "implicit1", "implicit4")
PARTITIONS: Final = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """The processes of the second server, the amount of work, and the programs."""

    processes: int
    sizes: Sizes
    records: int
    names: Sequence[str]

    def pair(self, folder: Path, order: Sequence[Side]) -> Outcomes:
        """One pair: each program on both servers, in slices. Raises BenchFailed."""
        with ExitStack() as stack:
            runs = {side: stack.enter_context(self._server(side, folder / side)) for side in order}
            yield from each_in_slices(runs, self.names, order)

    @contextmanager
    def _server(self, side: Side, folder: Path) -> Iterator[Driven]:
        folder.mkdir()
        count = 1 if side == "before" else self.processes
        options = ["--kafka", "127.0.0.1:0", "--processes", str(count)]
        with serving(folder, "everysec", options=options) as server:
            programs = Programs(Target(server.kafka, (server.pid,)), self.sizes.divided(SLICES))
            if kafka := [name for name in self.names if name in KAFKA]:
                programs.prepare(kafka)
            work = Work(server.address, "several", records=self.records // SLICES, partitions=PARTITIONS)
            yield Driven(server, programs, work)


def main(
    processes: Annotated[int, typer.Option(min=2, max=64, help="Processes of the second server.")] = 2,
    pairs: Annotated[int, typer.Option(min=1, max=50, help="Pairs; the table has their medians.")] = 3,
    quick: Annotated[bool, typer.Option(help="One short pair: does it work?")] = False,
    only: Annotated[list[str] | None, typer.Option(help=f"Only these of {', '.join(GRPC + KAFKA)}.")] = None,
) -> None:
    """Compare a server of several processes to one of one process; exit code 1 when something failed."""
    names = [name for name in (*GRPC, *available(KAFKA)) if not only or name in only]
    if "publish" not in names and set(names) & set(GRPC):
        names.insert(0, "publish")  # the others read its records
    heads = ("1 process", f"{processes} processes", f"{processes} / 1")
    compare(Plan(processes, *amounts(quick), names), 1 if quick else pairs, heads, "")


if __name__ == "__main__":
    typer.run(main)
