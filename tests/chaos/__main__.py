"""`make chaos`: a deployment of real processes under real faults, and a report."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from time import monotonic
from typing import Annotated

import structlog
import typer

from tests.chaos.actors import Size
from tests.chaos.deployment import LEASE, deployed
from tests.chaos.faults import KINDS, UNPLUG, Fault, only, schedule
from tests.chaos.kafka_clients import java_is_there
from tests.chaos.report import Outcome, report
from tests.chaos.run import Chaos
from tests.testkit.namespaces import possible


def main(
    minutes: Annotated[float, typer.Option(help="How long faults go on.")] = 5.0,
    seed: Annotated[int | None, typer.Option(help="Of the schedule; fresh if not set.")] = None,
    kind: Annotated[str, typer.Option(help="Only faults whose name contains this.")] = "",
    upstream: Annotated[bool, typer.Option(help="The records are in a real Kafka.")] = False,
) -> None:
    """Kills, freezes, stops and disconnects processes under load; fails if a guarantee was broken."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # servers and networks are removed then, too
    seed = secrets.randbelow(10**6) if seed is None else seed
    typer.echo(f"seed {seed} (make chaos SEED={seed} for the same schedule)")
    random, apart = Random(seed), possible() and not upstream
    faults = schedule(random, (*KINDS, UNPLUG) if apart else KINDS, upstream=upstream)
    outcome = asyncio.run(_run(only(faults, kind), minutes * 60, random, apart=apart, upstream=upstream))
    typer.echo(report(outcome))
    raise typer.Exit(not outcome.well)


async def _run(
    faults: Iterable[Fault], seconds: float, random: Random, *, apart: bool, upstream: bool
) -> Outcome:
    begun = monotonic()

    def log(text: str) -> None:
        typer.echo(f"{monotonic() - begun:7.1f} {text}")

    size = Size() if java_is_there() else Size(java=0)
    if upstream:
        size = replace(size, grpc_producers=0, kafka_producers=3)
    log(str(size))
    networks = "each in a network namespace" if apart else "no network namespaces (they need root)"
    if upstream:
        networks = "over a real Kafka, without network namespaces"
    async with deployed(apart=apart, upstream=upstream) as deployment:
        log(f"eight processes serve, {networks}")
        return await Chaos(deployment, LEASE, random, log).run(faults, seconds, size)


if __name__ == "__main__":
    typer.run(main)
