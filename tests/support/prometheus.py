"""A real Prometheus: `apt-get install prometheus` installs it (PROMETHEUS names another)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from tests.testkit.servers import free_port
from tests.testkit.waiting import until

PROMETHEUS = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
MISSING = "prometheus is not installed: apt-get install prometheus (PROMETHEUS names another)"


@dataclass(frozen=True)
class Prometheus:
    """The address of the query API."""

    url: str

    def values(self, query: str) -> list[float]:
        """Returns the present value of a query, one number per series. Raises HTTPError for an invalid
        query.
        """
        found = self._ask("query", query=query)
        return [value for row in found if isfinite(value := float(row["value"][1]))]

    def _ask(self, path: str, **words: str) -> list[Mapping[str, Any]]:
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(words)}", timeout=30) as response:
            result: list[Mapping[str, Any]] = json.load(response)["data"]["result"]
        return result


@contextlib.contextmanager
def prometheus(targets: Sequence[str], component: str = "all") -> Iterator[Prometheus]:
    """Provides a Prometheus that scrapes these addresses every second."""
    with tempfile.TemporaryDirectory(prefix="prometheus-") as name:
        folder = Path(name)
        job = {"job_name": "sharebroker", "static_configs": [{"targets": list(targets)}]}
        job["static_configs"][0]["labels"] = {"component": component}  # type: ignore[index]  # made above
        config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [job]}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        address = f"127.0.0.1:{free_port()}"
        command = [
            str(PROMETHEUS),
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address={address}",
        ]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until(lambda: process.poll() is not None or _ready(address), 60)
            assert process.poll() is None, (folder / "log").read_text()
            yield Prometheus(f"http://{address}")
        finally:
            process.terminate()
            process.wait(30)


def _ready(address: str) -> bool:
    try:
        with urlopen(f"http://{address}/-/ready", timeout=10):
            return True
    except (URLError, ConnectionError):
        return False
