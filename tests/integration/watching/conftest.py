"""A process whose HTTP endpoints are tested, on a Redis that can be made unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.support.client import TIMEOUT
from tests.testkit.brokers import Serve
from tests.testkit.plugin import TEST_PROPERTIES
from tests.testkit.servers import Server, running


class Watched:
    """A `serve --metrics` and its Redis."""

    def __init__(self, serve: Serve, redis: Server) -> None:
        self.serve = serve
        self.redis = redis

    @property
    def url(self) -> str:
        """Returns the URL of its HTTP endpoints."""
        return f"http://{self.serve.facts['metrics']}"

    async def ask(self, path: str) -> tuple[int, str]:
        """Returns status and text of a page."""
        return await ask(self.url + path)

    async def metrics(self) -> Metrics:
        """Returns the current metrics, never cached ones."""
        before = current = await self._scrape()
        while current.renderings == before.renderings:
            await asyncio.sleep(0.05)
            current = await self._scrape()
        return current

    async def _scrape(self) -> Metrics:
        status, text = await self.ask("/metrics")
        assert status == 200
        return Metrics(text)


async def ask(url: str) -> tuple[int, str]:
    """Returns status and text of a page."""
    return await asyncio.to_thread(_ask, url)


def _ask(url: str) -> tuple[int, str]:
    try:
        with urlopen(url, timeout=TIMEOUT) as response:
            return response.status, response.read().decode()
    except HTTPError as rejection:
        with rejection:
            return rejection.code, rejection.read().decode()


class Metrics:
    """A scrape, parsed by Prometheus's own parser."""

    def __init__(self, text: str) -> None:
        self.families = list(text_string_to_metric_families(text))
        self._samples = [sample for family in self.families for sample in family.samples]

    @property
    def renderings(self) -> float:
        """Returns the number of the rendering."""
        return self.of("metrics_renderings_total") or 0

    def of(self, name: str, **labels: str) -> float | None:
        """Returns the sum of the samples that have these labels; None if there are none."""
        found = [sample.value for sample in self.samples(name) if _has(sample.labels, labels)]
        return sum(found) if found else None

    def samples(self, name: str) -> list[Sample]:
        """Returns all samples of a name."""
        return [sample for sample in self._samples if sample.name == f"sharebroker_{name}"]


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= labels.items()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Starts one process with all roles."""
    folder: Path = tmp_path_factory.mktemp("watched")
    with running("valkey", "--appendonly", "yes", "--appendfsync", "always") as redis:
        options = ["--redis", redis.url, "--metrics", "127.0.0.1:0"]
        options += [option for pair in TEST_PROPERTIES for option in ("--set", pair)]
        serve = Serve(folder, options, "watched")
        serve.start()
        yield Watched(serve, redis)
        serve.stop()
