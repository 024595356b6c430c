"""`make hostile`: runs each attack beside an honest client; prints its longest waits and the peak memory."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Annotated

import grpc
import typer

from tests.hostile.attacks import MAX_WAIT, Attack, catalog_attacks, produce_attacks
from tests.hostile.byte_attacks import byte_attacks
from tests.hostile.entry_attacks import entry_attacks
from tests.hostile.frame_attacks import frame_attacks
from tests.hostile.grpc_attacks import grpc_attacks, unread_attacks
from tests.hostile.honest import honest_client
from tests.hostile.memory import peak_memory
from tests.testkit.brokers import Cluster, one_process


async def _measure(attack: Attack, cluster: Cluster, seconds: float) -> bool:
    send = await attack.prepare(cluster)
    before = peak_memory(cluster)
    async with honest_client(cluster.address) as honest:
        await send(seconds)
    waits = [honest.publishes.longest, honest.acquires.longest, honest.acknowledges.longest]
    failures = [failure for failure in honest.failures if not (attack.cancels and _cancelled(failure))]
    well = max(waits) <= attack.max_wait and not failures
    promised = max(waits) <= MAX_WAIT and not honest.failures
    result = "ok" if promised else "exception, see LIMITS" if well else "NOT BOUNDED"
    columns = " ".join(f"{wait:7.2f}" for wait in waits)
    typer.echo(
        f"{attack.name:45} {columns} {honest.rounds:6} {len(honest.failures):6} {before >> 20:6} "
        f"{peak_memory(cluster) >> 20:6}  {result}"
    )
    return well


def _cancelled(failure: Exception) -> bool:
    return isinstance(failure, grpc.aio.AioRpcError) and failure.code() is grpc.StatusCode.CANCELLED


async def _run(seconds: float, only: str) -> bool:
    well = True
    columns = "publish acquire     ack rounds failed    MiB   peak"
    typer.echo(f"{'attack':45} {columns}")
    attacks = (
        produce_attacks(),
        catalog_attacks(),
        entry_attacks(),
        byte_attacks(),
        grpc_attacks(),
        unread_attacks(),
        frame_attacks(),
    )
    for attack in chain(*attacks):
        if only in attack.name:
            with one_process("--fsync", "everysec") as cluster:
                well &= await _measure(attack, cluster, seconds)
    return well


def main(
    seconds: Annotated[float, typer.Option(help="The time of each attack.")] = 10.0,
    only: Annotated[str, typer.Option(help="Only attacks whose name contains this.")] = "",
) -> None:
    """Runs the attacks; the exit code is 1 if an honest client waited longer than LIMITS permits."""
    if not asyncio.run(_run(seconds, only)):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
