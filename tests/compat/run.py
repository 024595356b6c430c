"""`make compat`: Apache Kafka's own tests of the share consumer, unmodified, against Sharebroker.

With `--wire` the tests of share groups on raw sockets run instead.

Each case gets fresh servers with the properties it requires. Several JVMs share the work: cases mostly wait.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer
from rich.console import Console

from tests.compat import report
from tests.compat.jvm import DoesNotCompile, compile_classes
from tests.compat.worker import Case, MakeCluster, Worker
from tests.support.kafka_clusters import ProxyingCluster, RealCluster, SharebrokerCluster
from tests.support.kafka_jars import SERVER, SUITE, UPSTREAMS, WIRE, is_there

TESTS: Final = "org.apache.kafka.clients.consumer.ShareConsumerTest"
WIRE_TESTS: Final = (
    "kafka.server.ShareGroupHeartbeatRequestTest",
    "kafka.server.ShareGroupHeartbeatRequestTest$WithAssignmentBatchingDisabledTest",
    "kafka.server.ShareGroupDescribeRequestTest",
)
"""Tests with raw sockets; the second one inherits the methods of the first."""

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


def _short(tests: str) -> str:
    return tests.rpartition(".")[2].rpartition("$")[2]


def _workers(
    tests: str, make: MakeCluster, forks: int, folder: Path, defaults: Mapping[str, str]
) -> Iterator[Worker]:
    for number in range(forks):
        output = folder / _short(tests) / f"fork-{number + 1}"
        yield Worker(tests, make, folder / "classes", output, defaults)


def _system(console: Console, upstream: str | None, *, real: bool) -> tuple[str, MakeCluster]:
    """Returns the name of the servers, and how a cluster of them is made."""
    if real:
        return "Kafka 4.3.1", RealCluster
    if upstream is None:
        return "Sharebroker", SharebrokerCluster
    jars = next((jars for version, jars in UPSTREAMS.items() if version.startswith(upstream)), None)
    if jars is None or not is_there(jars):
        console.print(f"There are no jars of Kafka {upstream}: make kafka-upstream")
        raise typer.Exit(2)
    return f"Sharebroker over Kafka {jars.version}", partial(ProxyingCluster, jars=jars)


def main(
    real: Annotated[bool, typer.Option(help="Against a real Kafka 4.3.1, for comparison.")] = False,
    only: Annotated[str | None, typer.Option(help="Only test methods that this pattern is found in.")] = None,
    forks: Annotated[int, typer.Option(min=1, max=8, help="JVMs at a time.")] = 3,
    limit: Annotated[float, typer.Option(help="Seconds that a test method may take.")] = 300.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the result there, too.")] = None,
    output: Annotated[Path | None, typer.Option(help="Keep the output of servers and tests there.")] = None,
    tests: Annotated[str, typer.Option("--class", help="The test class.")] = TESTS,
    upstream: Annotated[
        str | None, typer.Option(help="Over a Kafka of this version, to which requests are passed: 3.9.")
    ] = None,
    wire: Annotated[bool, typer.Option("--wire", help="The tests of share groups on raw sockets.")] = False,
    properties: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE for servers whose test does not set KEY.")
    ] = None,
) -> None:
    """Runs Kafka's tests; exit code 1 if one fails."""
    console = Console()
    if not all(map(is_there, (SUITE, SERVER, WIRE))):
        console.print("Kafka's jars are missing: make kafka")
        raise typer.Exit(2)
    system, make = _system(console, upstream, real=real)
    defaults = dict(setting.split("=", 1) for setting in properties or ())
    classes = WIRE_TESTS if wire else (tests,)
    with ExitStack() as stack:
        folder = output or Path(stack.enter_context(TemporaryDirectory(prefix="sharebroker-compat-")))
        try:
            compile_classes(folder / "classes")
        except DoesNotCompile as error:
            console.print(str(error))
            raise typer.Exit(2) from None
        cases: list[Case] = []
        for name in classes:
            with ExitStack() as running:
                workers = [
                    running.enter_context(closing(worker))
                    for worker in _workers(name, make, forks, folder, defaults)
                ]
                methods, excluded = _parts(workers[0].methods(), only)
                found = excluded + Run(workers, limit, console).cases(methods)
            cases += [replace(case, name=f"{_short(name)}.{case.name}") for case in found] if wire else found
    report.show(system, ", ".join(map(_short, classes)), cases, console)
    if json_file is not None:
        json_file.write_text(report.as_json(system, ", ".join(classes), cases))
    raise typer.Exit(1 if any(case.outcome not in ("passed", "excluded") for case in cases) else 0)


if __name__ == "__main__":
    typer.run(main)
