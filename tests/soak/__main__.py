"""`make soak`: steady load for a long time, a fault every minute, and the growth meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from time import monotonic, time
from typing import Annotated, Final

import structlog
import typer

from sharebroker_protocol.cluster.v1 import cluster_pb2 as cluster
from tests.chaos.deployment import LEASE, Deployment, deployed
from tests.chaos.faults import Fault, schedule
from tests.chaos.report import percentile
from tests.soak.kafka_load import KafkaLoad
from tests.soak.load import GROUP, Load
from tests.soak.probes import Probes, longest
from tests.soak.series import Series
from tests.support.client import TIMEOUT, Client, connected

SHARE: Final = 0.7
"""The fraction of the highest possible rate that is used."""

PARTITIONS: Final = 8
RETENTION_BYTES: Final = 4 << 20
SETTINGS: Final = ("log.retention.check.interval.ms=5000",)
MEASURING: Final = 15.0
EVERY: Final = 60.0
AFTERMATH: Final = 15.0
"""Seconds after a fault whose records count as delayed by it."""


class Listener(StrEnum):
    """The protocol of the clients."""

    GRPC = "grpc"
    KAFKA = "kafka"


@dataclass
class Soaked:
    """The results of a run: seconds and rates in records a second, times in seconds."""

    pace: float
    load: Load | KafkaLoad
    series: list[Series]
    faults: list[tuple[float, str]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def well(self) -> bool:
        """Returns whether nothing grows and the rate was kept."""
        return not any(one.grows for one in self.series) and self.kept > 0.8

    @property
    def kept(self) -> float:
        """Returns the fraction of the expected records that were accepted."""
        return self.load.accepted / (self.pace * self.seconds)

    def waits(self, *, troubled: bool) -> list[float]:
        """Returns times from publishing to the confirmed acceptance, after faults or otherwise."""
        return [
            wait
            for at, wait in self.load.waits
            if troubled is any(struck <= at < struck + AFTERMATH for struck, _ in self.faults)
        ]


def main(
    minutes: Annotated[float, typer.Option(help="Duration of the load.")] = 30.0,
    pace: Annotated[float, typer.Option(help="Records a second; 70 % of the most if not set.")] = 0.0,
    seed: Annotated[int | None, typer.Option(help="Of the faults; fresh if not set.")] = None,
    listener: Annotated[Listener, typer.Option(help="By which protocol clients work.")] = Listener.GRPC,
    faults: Annotated[bool, typer.Option(help="Inject one fault per minute, or none.")] = True,
) -> None:
    """Runs a steady load with a fault a minute; fails if memory, files or logs grow without bound."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # servers and networks are removed then, too
    seed = secrets.randbelow(10**6) if seed is None else seed
    typer.echo(f"seed {seed}")
    soaked = asyncio.run(_soak(minutes * 60, pace, listener, schedule(Random(seed)) if faults else iter(())))
    typer.echo("\n".join(_report(soaked)))
    raise typer.Exit(not soaked.well)


async def _soak(seconds: float, pace: float, listener: Listener, faults: Iterator[Fault]) -> Soaked:
    async with deployed(*SETTINGS) as deployment, connected(deployment.address()) as client:
        topic = await _topic(client)

        def load_at(pace: float) -> Load | KafkaLoad:
            if listener is Listener.KAFKA:
                return KafkaLoad(deployment.kafka, topic, pace)
            return Load([deployment.address(0), deployment.address(1)], topic, pace)

        pace = pace or SHARE * await _most(load_at(50_000.0))
        typer.echo(f"{pace:,.0f} records a second by {listener} for {seconds / 60:g} minutes")
        load, probes = load_at(pace), Probes(deployment)
        soaked = Soaked(pace, load, [])
        probing = asyncio.create_task(probes.run())
        try:
            async with load.working():
                begun = monotonic()
                await _trouble(deployment, faults, seconds, soaked)
                soaked.seconds = monotonic() - begun
        finally:
            probing.cancel()
            await asyncio.wait([probing])
        if not probing.cancelled():
            probing.result()
        soaked.series = list(longest(probes.series))
        return soaked


async def _trouble(deployment: Deployment, faults: Iterator[Fault], seconds: float, soaked: Soaked) -> None:
    """Injects a fault in the middle of every minute."""
    begun = monotonic()
    for minute in range(max(1, round(seconds / EVERY))):
        await asyncio.sleep(max(0.0, begun + min((minute + 0.5) * EVERY, seconds) - monotonic()))
        fault, before = next(faults, None), soaked.load.accepted
        if fault is None:
            typer.echo(f"{monotonic() - begun:7.1f} no fault; {before:,} records accepted so far")
            continue
        soaked.faults.append((time(), str(fault)))
        await fault.strike(deployment)
        await asyncio.sleep(fault.lasts(LEASE) or 2.0)
        await fault.heal(deployment)
        typer.echo(f"{monotonic() - begun:7.1f} {fault}; {before:,} records accepted before it")
    await asyncio.sleep(max(0.0, begun + seconds - monotonic()))


async def _most(load: Load | KafkaLoad) -> float:
    """Returns the highest rate, limited only by the records not yet accepted."""
    async with load.working():
        await asyncio.sleep(MEASURING / 3)
        before, at = load.accepted, monotonic()
        await asyncio.sleep(MEASURING)
        return (load.accepted - before) / (monotonic() - at)


async def _topic(client: Client) -> str:
    name, _ = await client.create(PARTITIONS)
    request = cluster.IncrementalAlterConfigsRequest()
    group = request.resources.add(resource_type=cluster.RESOURCE_TYPE_GROUP, resource_name=GROUP)
    group.configs.add(name="share.auto.offset.reset", value="earliest")
    topic = request.resources.add(resource_type=cluster.RESOURCE_TYPE_TOPIC, resource_name=name)
    topic.configs.add(name="retention.bytes", value=str(RETENTION_BYTES))
    await client.admin.IncrementalAlterConfigs(request, timeout=TIMEOUT)
    return name


def _report(soaked: Soaked) -> Iterator[str]:
    load = soaked.load
    yield f"records: {load.accepted:,} accepted, {soaked.kept:.0%} of the pace; faults: {len(soaked.faults)}"
    yield f"errors that clients received: {dict(load.surfaced) or 'none'}"
    for what, troubled in (("no fault", False), ("a fault", True)):
        waits = soaked.waits(troubled=troubled)
        if waits:
            p50, p99 = (percentile(waits, percent) * 1e3 for percent in (50, 99))
            yield f"published to accepted, {what}: p50 {p50:.1f} ms, p99 {p99:.1f} ms"
    yield f"{'watched':<40}{'minutes':>8}{'first':>12}{'last':>12}{'an hour':>12}"
    for one in soaked.series:
        settled = one.settled
        if len(settled) > 1:
            figures = f"{settled[0][1]:>12,.1f}{settled[-1][1]:>12,.1f}{one.slope:>+12,.1f}"
            grows = "  GROWS" if one.grows else ""
            yield f"{one.name + ' ' + one.unit:<40}{one.seconds / 60:>8.1f}{figures}{grows}"
    yield "verdict: " + ("nothing grows" if soaked.well else "FAILED")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        typer.run(main)
