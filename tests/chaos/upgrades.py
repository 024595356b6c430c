"""`make upgrade`: replaces processes by those of another checkout, one at a time under load, back, and again.

The newer release serves at the end, because the checker reads lists that an older one may not have.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import monotonic
from typing import Annotated, Final

import structlog
import typer

from tests.chaos.actors import Size
from tests.chaos.deployment import LEASE, Deployment, deployed
from tests.chaos.kafka_clients import java_is_there
from tests.chaos.report import Outcome, report
from tests.chaos.run import Chaos
from tests.perf.checkout import HERE, Checkout, NoServer
from tests.samples.reading import SAMPLES, contents
from tests.support.checkouts import NoHistory, exported, program, revision_of
from tests.testkit.brokers import ROLES

UPGRADE: Final = "upgrade"
DOWNGRADE: Final = "downgrade"

_PATIENCE: Final = 3600.0


@dataclass(frozen=True)
class Replacement:
    """A planned stop of one process, and the start of another release at its address."""

    kind: str
    role: str
    number: int
    checkout: Checkout

    stalls = False
    outlasts_work = False

    def __str__(self) -> str:
        return f"{self.kind} {self.role}-{self.number + 1}"

    def lasts(self, lease: float) -> float:
        """Returns 0: the replacement is complete when the new process serves."""
        return 0.0

    async def strike(self, on: Deployment) -> None:
        """Stops the process, and starts the other release."""
        node = on.of(self.role)[self.number]
        await node.stop()
        node.serve.program = program(self.checkout)
        await node.start()

    async def heal(self, on: Deployment) -> None:
        """Does nothing."""


def replacements(random: Random, kind: str, checkout: Checkout) -> list[Replacement]:
    """Returns the replacements of all processes, in random order: no role has to be first."""
    every = [Replacement(kind, role, number, checkout) for role in ROLES for number in range(2)]
    random.shuffle(every)
    return every


def main(
    before: Annotated[str, typer.Option("--from", help="Checkout or commit of the older release.")] = "",
    seed: Annotated[int | None, typer.Option(help="Of the order; fresh if not set.")] = None,
) -> None:
    """Upgrades eight processes one at a time, goes back, and repeats it; fails if a guarantee was broken."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # servers are removed then, too
    seed = secrets.randbelow(10**6) if seed is None else seed
    with tempfile.TemporaryDirectory(prefix="sharebroker-upgrade-") as folder:
        try:
            older = _older(before, Path(folder))
        except (NoHistory, NoServer) as missing:
            typer.echo(str(missing), err=True)
            raise typer.Exit(2) from None
        typer.echo(f"from {before or 'the commit of the newest sample'}, seed {seed}")
        outcome = asyncio.run(_run(older, Random(seed)))
    typer.echo(report(outcome))
    raise typer.Exit(not outcome.well)


def _older(before: str, folder: Path) -> Checkout:
    if Path(before or ".missing").is_dir():
        return Checkout.at(Path(before))
    newest = max(SAMPLES, key=lambda sample: float(contents(sample)["written at"]))
    return exported(before or revision_of(newest), folder)


async def _run(older: Checkout, random: Random) -> Outcome:
    begun = monotonic()

    def log(text: str) -> None:
        typer.echo(f"{monotonic() - begun:7.1f} {text}")

    size = Size() if java_is_there() else Size(java=0)
    log(str(size))
    steps: Iterable[Replacement] = [
        *replacements(random, UPGRADE, HERE),
        *replacements(random, DOWNGRADE, older),
        *replacements(random, UPGRADE, HERE),
    ]
    async with deployed(program=program(older)) as deployment:
        log("eight processes of the older release serve")
        # An older release need not list failed records.
        return await Chaos(deployment, LEASE, random, log, journal=False).run(steps, _PATIENCE, size)


if __name__ == "__main__":
    typer.run(main)
