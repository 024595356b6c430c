"""`make compat`: Apache Kafka's own tests of the share consumer, unmodified, against Sharebroker.

Each case gets fresh servers with the properties it requires. Several JVMs share the work: cases mostly wait.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer
from rich.console import Console

from tests.compat import report
from tests.compat.jvm import DoesNotCompile, compile_classes
from tests.compat.worker import Case, MakeCluster, Worker
from tests.support.kafka_clusters import RealCluster, SharebrokerCluster
from tests.support.kafka_jars import SERVER, SUITE, is_there

TESTS: Final = "org.apache.kafka.clients.consumer.ShareConsumerTest"
TRIES: Final = 2
"""As in Kafka's own builds: some cases depend on the machine's speed, on a real Kafka as well."""

EXCLUDED: Final[dict[str, str]] = {}
"""Test methods that are not run, each with the reason."""


class Run:
    """Test methods, distributed to workers as these become idle."""

    def __init__(self, workers: Sequence[Worker], limit: float, console: Console) -> None:
        self._free: SimpleQueue[Worker] = SimpleQueue()
        for worker in workers:
            self._free.put(worker)
        self._forks = len(workers)
        self._limit = limit
        self._console = console

    def cases(self, methods: Sequence[str]) -> list[Case]:
        """Returns the results of the cases of all methods."""
        with ThreadPoolExecutor(self._forks) as pool:
            return [case for cases in pool.map(self._of_one, methods) for case in cases]

    def _of_one(self, method: str) -> list[Case]:
        worker = self._free.get()
        try:
            for tries in range(1, TRIES + 1):
                found = [replace(case, tries=tries) for case in worker.run(method, self._limit)]
                if all(case.outcome == "passed" for case in found):
                    break
        finally:
            self._free.put(worker)
        for case in found:
            report.show_case(case, self._console)
        return found


def _parts(methods: Sequence[str], only: str | None) -> tuple[list[str], list[Case]]:
    """Returns the methods to run, and the skipped ones with their reasons."""
    selected = [method for method in methods if only is None or re.search(only, method)]
    excluded = [Case(name, "excluded", error=EXCLUDED[name]) for name in selected if name in EXCLUDED]
    return [method for method in selected if method not in EXCLUDED], excluded


def _workers(tests: str, make: MakeCluster, forks: int, folder: Path) -> Iterator[Worker]:
    for number in range(forks):
        yield Worker(tests, make, folder / "classes", folder / f"fork-{number + 1}")


def main(
    real: Annotated[bool, typer.Option(help="Against a real Kafka 4.3.1, for comparison.")] = False,
    only: Annotated[str | None, typer.Option(help="Only test methods that this pattern is found in.")] = None,
    forks: Annotated[int, typer.Option(min=1, max=8, help="JVMs at a time.")] = 3,
    limit: Annotated[float, typer.Option(help="Seconds that a test method may take.")] = 300.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the result there, too.")] = None,
    output: Annotated[Path | None, typer.Option(help="Keep the output of servers and tests there.")] = None,
    tests: Annotated[str, typer.Option("--class", help="The test class.")] = TESTS,
) -> None:
    """Runs Kafka's tests; exit code 1 if one fails."""
    console = Console()
    if not (is_there(SUITE) and is_there(SERVER)):
        console.print("Kafka's jars are missing: make kafka")
        raise typer.Exit(2)
    system, make = ("Kafka 4.3.1", RealCluster) if real else ("Sharebroker", SharebrokerCluster)
    with ExitStack() as stack:
        folder = output or Path(stack.enter_context(TemporaryDirectory(prefix="sharebroker-compat-")))
        try:
            compile_classes(folder / "classes")
        except DoesNotCompile as error:
            console.print(str(error))
            raise typer.Exit(2) from None
        workers = [stack.enter_context(closing(w)) for w in _workers(tests, make, forks, folder)]
        methods, cases = _parts(workers[0].methods(), only)
        cases += Run(workers, limit, console).cases(methods)
    report.show(system, tests, cases, console)
    if json_file is not None:
        json_file.write_text(report.as_json(system, tests, cases))
    raise typer.Exit(1 if any(case.outcome not in ("passed", "excluded") for case in cases) else 0)


if __name__ == "__main__":
    typer.run(main)
