"""A real Jaeger; `make jaeger` builds it (needs Go)."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.testkit.servers import free_port
from tests.testkit.waiting import until

_CACHED = Path(__file__).parents[2] / ".cache" / "bin" / "jaeger"
JAEGER = str(_CACHED) if _CACHED.exists() else shutil.which("jaeger")
MISSING = "Jaeger is not here: `make jaeger` brings it"

_CONFIG = """
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: {{receivers: [otlp], processors: [], exporters: [jaeger_storage_exporter]}}
  telemetry: {{logs: {{level: warn}}, metrics: {{level: none}}}}
extensions:
  jaeger_storage: {{backends: {{mem: {{memory: {{max_traces: 10000}}}}}}}}
  jaeger_query:
    storage: {{traces: mem}}
    grpc: {{endpoint: "127.0.0.1:{grpc}"}}
    http: {{endpoint: "127.0.0.1:{query}"}}
receivers:
  otlp: {{protocols: {{grpc: {{endpoint: "127.0.0.1:{otlp}"}}}}}}
exporters:
  jaeger_storage_exporter: {{trace_storage: mem}}
"""


@dataclass(frozen=True)
class Jaeger:
    """The address that accepts spans, and the address of the query API."""

    otlp: str
    query: str


@contextlib.contextmanager
def jaeger() -> Iterator[Jaeger]:
    """Provides a Jaeger that keeps traces in memory."""
    grpc, query, otlp = (free_port() for _ in range(3))
    with tempfile.TemporaryDirectory(prefix="jaeger-") as name:
        config = Path(name) / "jaeger.yaml"
        config.write_text(_CONFIG.format(grpc=grpc, query=query, otlp=otlp))
        with (Path(name) / "log").open("wb") as log:
            process = subprocess.Popen([str(JAEGER), "--config", str(config)], stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{query}"
            until(lambda: process.poll() is not None or _answers(url), 60)
            assert process.poll() is None, (Path(name) / "log").read_text()
            yield Jaeger(f"http://127.0.0.1:{otlp}", url)
        finally:
            process.terminate()
            process.wait(30)


def _answers(url: str) -> bool:
    try:
        with urlopen(f"{url}/api/services", timeout=10) as response:
            json.load(response)
    except (URLError, ConnectionError):
        return False
    return True
