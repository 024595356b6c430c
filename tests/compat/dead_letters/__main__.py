"""`make compat-dead-letters`: runs scenarios against a real Kafka 4.4.0 and Sharebroker.

Prints a line for each scenario. Exits with 1 if one differs that is not expected to.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from sharebroker_server.catalog.features import SHARE_VERSION_MAX
from tests.compat.dead_letters import failures, feature_levels, settings
from tests.compat.dead_letters.scenarios import Observed, Scenario
from tests.support.kafka_client import connected
from tests.support.kafka_jars import NEXT_SERVER, is_there
from tests.support.kafka_server import running_kafka
from tests.testkit.brokers import one_process

SCENARIOS: Final = (*feature_levels.SCENARIOS, *settings.SCENARIOS, *failures.SCENARIOS)

PROPERTIES: Final = {"group.share.min.record.lock.duration.ms": 1000}


BROKEN: Final = "not finished"
"""The start of what a scenario observes that did not finish."""


async def _observe(address: str, scenarios: Sequence[Scenario]) -> dict[str, Observed]:
    seen: dict[str, Observed] = {}
    for scenario in scenarios:
        async with connected(address) as client:
            try:
                seen[scenario.name] = await scenario.run(client)
            except (AssertionError, TimeoutError) as error:
                seen[scenario.name] = [f"{BROKEN}: {error!r}"]
    return seen


def compare(scenarios: Sequence[Scenario], kafka: dict[str, Observed], ours: dict[str, Observed]) -> int:
    """Prints a line for each scenario, and what differs; returns the number of unexpected differences."""
    unexpected = 0
    for scenario in scenarios:
        one, other = kafka[scenario.name], ours.get(scenario.name)
        if other is None:
            typer.echo(f"skipped  {scenario.name}: needs share.version={scenario.level}")
            continue
        if one == other and not any(line.startswith(BROKEN) for line in one):
            typer.echo(f"same     {scenario.name}")
            continue
        unexpected += not scenario.difference
        typer.echo(f"{'differs ' if scenario.difference else 'WRONG   '} {scenario.name}")
        if scenario.difference:
            typer.echo(f"           {scenario.difference}")
        for mark, lines in (("Kafka", one), ("ours", other)):
            typer.echo("\n".join(f"           {mark:6}{line}" for line in lines))
    return unexpected


def main(
    only: Annotated[str | None, typer.Option(help="Only scenarios that this pattern is found in.")] = None,
) -> None:
    """Compares the two."""
    if not is_there(NEXT_SERVER):
        typer.echo("Kafka's jars are missing: make kafka", err=True)
        raise typer.Exit(1)
    scenarios = [each for each in SCENARIOS if only is None or re.search(only, each.name)]
    with (
        tempfile.TemporaryDirectory(prefix="sharebroker-dead-letters-") as folder,
        running_kafka(Path(folder) / "kafka", properties=PROPERTIES, jars=NEXT_SERVER) as cluster,
    ):
        kafka = asyncio.run(_observe(cluster.bootstrap, scenarios))
    possible = [each for each in scenarios if each.level <= SHARE_VERSION_MAX]
    with one_process(*(f"--set={name}={value}" for name, value in PROPERTIES.items())) as broker:
        ours = asyncio.run(_observe(broker.kafka, possible))
    unexpected = compare(scenarios, kafka, ours)
    typer.echo(f"{len(scenarios)} scenarios, {len(possible)} compared, {unexpected} unexpected differences")
    raise typer.Exit(bool(unexpected))


if __name__ == "__main__":
    typer.run(main)
