"""The memory of server processes."""

from __future__ import annotations

from pathlib import Path

from tests.testkit.brokers import Cluster


def peak_memory(cluster: Cluster) -> int:
    """Returns the largest RSS of a server process in bytes."""
    return max(_status(serve.process.pid, "VmHWM") for serve in cluster.processes if serve.process)


def _status(pid: int, field: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition(f"{field}:")[2].split()[0])
