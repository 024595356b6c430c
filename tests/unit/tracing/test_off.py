"""A process that does not trace has nothing of OpenTelemetry in it."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
import services.broker.cli, sharebroker.cli.app, sharebroker.aio
from services.broker.process import Process
from sharebroker import Producer, ShareConsumer, Admin
found = sorted(name for name in sys.modules if name.startswith("opentelemetry"))
assert not found, found
"""


def test_nothing_is_imported() -> None:
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True, timeout=60)
