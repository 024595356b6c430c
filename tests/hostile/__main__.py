"""`make hostile`: runs each attack beside an honest client; prints its longest waits and the peak memory."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Annotated, Final, NamedTuple

import grpc
import typer

from tests.hostile.attacks import MAX_MEMORY, MAX_WAIT, Attack, catalog_attacks, produce_attacks
from tests.hostile.byte_attacks import byte_attacks
from tests.hostile.entry_attacks import entry_attacks
from tests.hostile.frame_attacks import frame_attacks
from tests.hostile.grpc_attacks import grpc_attacks, unread_attacks
from tests.hostile.honest import honest_client
from tests.hostile.memory import peak_memory
from tests.testkit.brokers import Cluster, one_process

OVERHEAD: Final = 3.5
"""Seconds that the start of a server, the preparation of an attack and the end of both take on average."""


class Row(NamedTuple):
    """The result of an attack."""

    text: str
    well: bool


async def _measure(attack: Attack, cluster: Cluster, seconds: float) -> Row:
    send = await attack.prepare(cluster)
    before = peak_memory(cluster)
    async with honest_client(cluster.address) as honest:
        await send(seconds)
    peak = peak_memory(cluster)
    waits = [honest.publishes.longest, honest.acquires.longest, honest.acknowledges.longest]
    failures = [failure for failure in honest.failures if not (attack.cancels and _cancelled(failure))]
    well = max(waits) <= attack.max_wait and peak <= attack.max_memory and not failures
    promised = max(waits) <= MAX_WAIT and peak <= MAX_MEMORY and not honest.failures
    result = "ok" if promised else "exception, see LIMITS" if well else "NOT BOUNDED"
    columns = " ".join(f"{wait:7.2f}" for wait in waits)
    counts = f"{honest.rounds:6} {len(honest.failures):6} {before >> 20:6} {peak >> 20:6}"
    return Row(f"{columns} {counts}  {result}", well)


def _cancelled(failure: Exception) -> bool:
    return isinstance(failure, grpc.aio.AioRpcError) and failure.code() is grpc.StatusCode.CANCELLED


def _selected(only: str) -> list[Attack]:
    attacks = (
        produce_attacks(),
        catalog_attacks(),
        entry_attacks(),
        byte_attacks(),
        grpc_attacks(),
        unread_attacks(),
        frame_attacks(),
    )
    return [attack for attack in chain(*attacks) if only in attack.name]


async def _run(attacks: list[Attack], seconds: float) -> bool:
    well = True
    typer.echo(f"{len(attacks)} attacks, about {len(attacks) * (seconds + OVERHEAD) / 60:.0f} minutes")
    typer.echo(f"{'':7} {'attack':45} publish acquire     ack rounds failed    MiB   peak")
    for number, attack in enumerate(attacks, 1):
        typer.echo(f"{number:3}/{len(attacks):<3} {attack.name:45} ", nl=False)
        with one_process("--fsync", "everysec") as cluster:
            try:
                row = await _measure(attack, cluster, seconds)
            except (AssertionError, OSError, grpc.aio.AioRpcError) as failure:
                row = Row(f"NOT BOUNDED: {failure!r}", well=False)
        typer.echo(row.text)
        well &= row.well
    return well


def main(
    seconds: Annotated[float, typer.Option(help="The time of each attack.")] = 10.0,
    only: Annotated[str, typer.Option(help="Only attacks whose name contains this.")] = "",
) -> None:
    """Attacks a new server with each attack; all take about twelve minutes.

    The exit code is 1 if an honest client waited longer, or the server used more memory, than LIMITS permits.
    """
    attacks = _selected(only)
    if not attacks:
        raise typer.BadParameter(f"No attack has {only!r} in its name.", param_hint="--only")
    if not asyncio.run(_run(attacks, seconds)):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
