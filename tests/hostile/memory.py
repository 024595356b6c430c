"""The memory and the CPU time of server processes."""

from __future__ import annotations

from pathlib import Path

from tests.perf.procfs import TICKS, Stat
from tests.testkit.brokers import Cluster


def peak_memory(cluster: Cluster) -> int:
    """Returns the largest RSS of a server process in bytes."""
    return max(_status(serve.process.pid, "VmHWM") for serve in cluster.processes if serve.process)


def cpu_seconds(cluster: Cluster) -> float:
    """Returns the CPU time of the servers in seconds, without that of their children."""
    pids = [serve.process.pid for serve in cluster.processes if serve.process]
    return sum(Stat.parse(Path(f"/proc/{pid}/stat").read_text()).ticks for pid in pids) / TICKS


def _status(pid: int, field: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition(f"{field}:")[2].split()[0])
