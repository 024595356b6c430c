"""The example of `make run`: starts a server, processes all flights, verifies the result, keeps serving."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Final

from rich.console import Console

from sharebroker import KafkaError
from sharebroker.cli.options import DEFAULT_SERVER
from sharebroker.cli.output import explain, print_notice
from sharebroker_server.flights import dataset, upstream
from sharebroker_server.flights.cluster import Cluster, Job
from sharebroker_server.flights.display import Display, print_summary, print_verdict
from sharebroker_server.flights.processes import NotServingError, ServerProcess, interrupt_at_sigterm, serving
from sharebroker_server.flights.supervisor import FlightsRun, Plan, RunResult

_FAILED: Final = 1
_BAD_SETUP: Final = 2
_INTERRUPTED: Final = 130
_KAFKA: Final = "127.0.0.1:9092"
_TOPIC: Final = "flights"
_GROUP: Final = "delays"
_PARTITIONS: Final = 8
_LOCK_SECONDS: Final = 10
_FAIL_AFTER: Final = 0.3
"""The fraction of the records after which a worker fails."""


_PROPERTIES: Final = (
    # Lower limits, so that locks and sessions time out while a user watches.
    f"group.share.min.record.lock.duration.ms={_LOCK_SECONDS * 1000}",
    f"group.share.min.session.timeout.ms={_LOCK_SECONDS * 1000}",
    "group.share.min.heartbeat.interval.ms=1000",
)


def main() -> int:
    """Runs the command line; the exit code is 1 if a record is unaccounted for, 2 if set-up fails."""
    options = _parse(sys.argv[1:])
    console = Console(highlight=False)
    interrupt_at_sigterm()
    try:
        folder = dataset.install(Path(".cache", "flights"))
        if options.upstream:
            asyncio.run(upstream.create_topic(options.upstream, _TOPIC, _PARTITIONS))
        with serving(options.data, options.grpc, options.kafka, _PROPERTIES, options.upstream) as server:
            return _with_server(options, console, folder, server)
    except (NotServingError, upstream.NoUpstreamError, dataset.NoDatasetError) as failure:
        print_notice(str(failure))
        return _BAD_SETUP
    except KafkaError as failure:
        print_notice(explain(failure))
        return _FAILED
    except KeyboardInterrupt:
        print_notice("Stopped. Start it again to continue.")
        return _INTERRUPTED


def _with_server(options: argparse.Namespace, console: Console, folder: Path, server: ServerProcess) -> int:
    listeners = f"gRPC on {server.address}" + (f", Kafka clients on {server.kafka}" if server.kafka else "")
    records = f", records in Kafka at {options.upstream}" if options.upstream else ""
    console.print(f"Serving {listeners}, data in {options.data}/{records}.")
    outcome = asyncio.run(_run(options, console, folder, server.address))
    outcome.add_earlier(options.data / "flights-summary.json")
    print_summary(console, outcome.summary, dataset.airlines(folder))
    print_verdict(console, outcome.verdict)
    if not outcome.verdict.good:
        return _FAILED
    return 0 if options.once else _keep_serving(console, server)


async def _run(options: argparse.Namespace, console: Console, folder: Path, address: str) -> RunResult:
    job = Job(address, _TOPIC, _PARTITIONS, _GROUP, _LOCK_SECONDS, options.upstream)
    async with Cluster.connected(job) as cluster:
        await cluster.prepare()
        remaining = options.rows - len(await cluster.finished())
        console.print(f"{options.workers} workers, {remaining:,} of {options.rows:,} flights to process.")
        plan = Plan(job, options.workers, int(remaining * _FAIL_AFTER))
        with Display(console) as display:
            return await FlightsRun(plan, cluster, display).run(dataset.flights(folder, options.rows))


def _keep_serving(console: Console, server: ServerProcess) -> int:
    """Serves until Ctrl-C."""
    command = Path(sys.executable).with_name("sharebroker")
    server_option = "" if server.address == DEFAULT_SERVER else f" --server {server.address}"
    executable = command.relative_to(Path.cwd()) if command.is_relative_to(Path.cwd()) else command
    console.print(f"\nServing on {server.address} until Ctrl-C. Try in another terminal:", style="bold")
    for arguments in (
        f"groups offsets {_GROUP}{server_option}",
        f"state show {_GROUP} {_TOPIC} 0{server_option}",
        f"consume {_TOPIC} --group look --from-beginning --max 3 --json{server_option}",
    ):
        console.print(f"  {executable} {arguments}", soft_wrap=True)
    try:
        server.process.wait()
    except KeyboardInterrupt:
        return 0
    console.print("The server stopped; its log is server.log in the data folder.")
    return _FAILED


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sharebroker_server.flights", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data"), help="data folder")
    parser.add_argument(
        "--grpc", default=DEFAULT_SERVER, metavar="HOST:PORT", help="address of the gRPC listener"
    )
    parser.add_argument("--kafka", default=_KAFKA, metavar="HOST:PORT", help="address of the Kafka listener")
    parser.add_argument(
        "--upstream",
        default="",
        metavar="HOST:PORT,…",
        help="bootstrap address of a Kafka cluster, which then has the topic and its records",
    )
    parser.add_argument("--rows", type=int, default=dataset.ROWS, help="number of flights, from the first")
    parser.add_argument("--workers", type=int, default=8, help="number of worker processes")
    parser.add_argument("--once", action="store_true", help="exit after the verdict")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
