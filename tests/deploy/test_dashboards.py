"""Every panel has data: a real Prometheus scrapes a process under load and answers the panels' queries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import confluent_kafka
import grpc
import pytest

from sharebroker import aio
from tests.deploy.chart import CHART
from tests.support.client import ACCEPT, REJECT, RELEASE, Client, connected, unique
from tests.support.prometheus import MISSING, PROMETHEUS, Prometheus, prometheus
from tests.testkit.brokers import Serve
from tests.testkit.servers import running
from tests.testkit.waiting import eventually

pytestmark = pytest.mark.skipif(PROMETHEUS is None, reason=MISSING)

DASHBOARDS = sorted((CHART / "files" / "dashboards").glob("*.json"))
_GRAFANAS: Final = {
    "$__rate_interval": "10s",
    **dict.fromkeys(("$namespace", "$release", "$group", "$topic"), ".*"),
}
_PATIENCE: Final = 90.0
# These series exist only after a failure, for clients over their quota, or with an embedded Valkey.
_QUIET: Final = {
    ("coordinator", "Failed appends"),
    ("group", "Dead letters"),
    ("group", "Oldest archiving record"),
    ("overview", "Kafka errors"),
    ("overview", "Memory of the embedded Valkey"),
    ("overview", "Waits for quotas"),
}


def panels() -> Iterator[tuple[tuple[str, str], list[str]]]:
    """Returns dashboard, title, and the queries as Grafana sends them."""
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            queries = []
            for target in panel["targets"]:
                query = target["expr"]
                for name, value in _GRAFANAS.items():
                    query = query.replace(name, value)
                queries.append(query)
            yield (path.stem, panel["title"]), queries


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with running("valkey", "--appendonly", "yes") as redis:
        locks = "group.share.min.record.lock.duration.ms=1000"
        serve = Serve(tmp_path, ["--redis", redis.url, "--metrics", "127.0.0.1:0", "--set", locks])
        serve.start()
        yield serve
        serve.stop()


class Work:
    """A small mix of real work: all kinds of acknowledgements, lock timeouts, errors."""

    def __init__(self, client: Client, serve: Serve, topic: str, group: str) -> None:
        self._client = client
        self._serve = serve
        self._topic = topic
        self._group = group
        self._kafka = confluent_kafka.Producer({"bootstrap.servers": serve.kafka, "retries": 0})

    async def go_on(self) -> None:
        """Works until it is stopped; about one round a second."""
        while True:
            await self._client.publish(self._topic, map(str, range(12)))
            for kind in (ACCEPT, REJECT, RELEASE):
                held = await self._client.acquire(self._group, self._topic, 3, member="m", wait=1.0)
                await self._client.acknowledge(self._group, "m", held.records, kind)
            await self._client.acquire(self._group, self._topic, 1, member="silent", wait=1.0)
            with pytest.raises(grpc.aio.AioRpcError):
                await self._client.publish("nowhere", "x")
            await asyncio.to_thread(self._use_the_kafka_listener)
            await self._unseen()

    def _use_the_kafka_listener(self) -> None:
        self._kafka.produce(self._topic, b"x")
        self._kafka.flush(10)

    async def _unseen(self) -> None:
        """A member acquires more records than it passes to the application."""
        async with aio.ShareConsumer(self._serve.address, self._group, [self._topic]) as consumer:
            async for record in consumer:
                record.accept()
                await asyncio.sleep(1.0)  # heartbeats, and a scrape, see it there
                return


async def test_every_panel_has_data(serve: Serve) -> None:
    missing = dict(panels())
    assert len(missing) > 40
    async with connected(serve.address) as client:
        topic, _ = await client.create(2, name=unique("orders"))
        settings = {"share_record_lock_duration_ms": "1000", "share_delivery_count_limit": "2"}
        work = Work(client, serve, topic, await client.group(**settings))
        await client.group(share_paused="true")
        with prometheus([str(serve.facts["metrics"])]) as found:
            working = asyncio.create_task(work.go_on())
            try:
                await eventually(lambda: _seen(found, missing, working), _PATIENCE)
            except AssertionError:
                pytest.fail(f"nothing is shown by {sorted(missing)}")
            finally:
                working.cancel()
                await asyncio.wait([working])


async def _seen(found: Prometheus, missing: dict[tuple[str, str], list[str]], working: object) -> bool:
    """Removes the queries that return data; returns whether all possible ones did."""
    assert isinstance(working, asyncio.Task)
    if working.done():
        working.result()
    await asyncio.sleep(1)
    for place, queries in list(missing.items()):
        values = [await asyncio.to_thread(found.values, query) for query in queries]
        if all(values):
            del missing[place]
    return not missing.keys() - _QUIET
