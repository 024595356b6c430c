"""A process without tracing does not import OpenTelemetry."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import sys
import sharebroker_server.broker.commands.serve, sharebroker.cli.app, sharebroker.aio
from sharebroker_server.broker.process import Process
from sharebroker import Producer, ShareConsumer, Admin
found = sorted(name for name in sys.modules if name.startswith("opentelemetry"))
assert not found, found
"""


@pytest.mark.slow
def test_opentelemetry_is_not_imported_without_tracing() -> None:
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True, timeout=60)
