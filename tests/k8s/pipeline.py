"""The pipeline as a Job: Spark in a restricted pod processes a topic."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from sharebroker_server.flights.core.flight import Flight
from tests.k8s.kubectl import Failed, Kubectl
from tests.k8s.release import Release
from tests.pipeline.queue import READERS, TOPIC, publish
from tests.support.client import connected
from tests.testkit.waiting import eventually

PIPELINE: Final = "pipeline"
"""The step's name; it runs only on request, since its image takes minutes to build."""

_FLIGHTS: Final = 500
_PARTITIONS: Final = 2
_TIME: Final = 420.0
_VALUES: Final = {
    "pipeline.enabled": True,
    "pipeline.image.tag": "k8s",
    "pipeline.topic": TOPIC,
    "pipeline.group": READERS,
    "pipeline.arguments": ["--from-beginning", "--json"],
    "pipeline.persistence.enabled": False,
    "pipeline.backoffLimit": 1,
    "pipeline.resources.requests": {"cpu": "100m", "memory": "1Gi"},
}


async def topic_is_processed(release: Release) -> str:
    """Returns the result in one line. Raises AssertionError on failure."""
    kubectl = release.node.kubectl
    async with connected(release.address()) as client:
        published = await publish(client, release.address(), map(_flight, range(_FLIGHTS)), _PARTITIONS)
        values = [f"{name}={json.dumps(value)}" for name, value in _VALUES.items()]
        await asyncio.to_thread(release.change, *values)
        (job,) = await asyncio.to_thread(kubectl.get, "job", "-l=app.kubernetes.io/component=pipeline")
        name = f"job/{job['metadata']['name']}"
        await _ended(kubectl, name)
        output = "\n" + await asyncio.to_thread(kubectl, "logs", name)
        tables = json.loads(output[output.rindex("\n{") :])  # progress lines precede it
        wanted = ["--for=condition=Complete", name, "--timeout=60s"]
        await asyncio.to_thread(kubectl, "wait", *wanted)
    await asyncio.to_thread(release.change, "pipeline.enabled=false")
    totals: dict[str, Any] = tables["totals"][0]
    rejected = sum(published.rejected.values())
    assert totals["bronze"] == totals["offsets"] == published.records, totals
    assert (totals["silver"], totals["rejected"]) == (published.records - rejected, rejected), totals
    assert not totals["differences"], totals
    return f"{published.records} records in tables, {rejected} of them apart, the state log folded alike"


def _flight(number: int) -> Flight:
    return Flight("2013-12-31", "ZZ", str(number), f"N{number % 7}", "JFK", "LGA", 900, 0, number % 60)


async def _ended(kubectl: Kubectl, job: str) -> None:
    """Waits until the job ends; returns whether it succeeded."""
    failed: list[str] = []

    async def over() -> bool:
        await asyncio.sleep(1)
        (found,) = await asyncio.to_thread(kubectl.get, job)
        kinds = {one["type"] for one in found["status"].get("conditions", ()) if one["status"] == "True"}
        if "Failed" in kinds:
            failed.append(await asyncio.to_thread(_output, kubectl, job))
        return bool(failed) or "Complete" in kinds

    await eventually(over, _TIME)
    assert not failed, failed[0]


def _output(kubectl: Kubectl, job: str) -> str:
    try:
        return kubectl("logs", job, "--tail=40")
    except Failed as failure:
        return str(failure)
