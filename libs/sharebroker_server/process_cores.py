"""Cores that this process and its children may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sharebroker_server.cgroups import CGROUPS, PROC, cgroup_folders

_QUOTA: Final = "cpu.cfs_quota_us"
_PERIOD: Final = "cpu.cfs_period_us"


def usable_cores(proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """Returns the whole cores that the affinity and the CPU quota of the cgroup permit, at least 1."""
    return max(1, int(min([_affinity(), *_quotas(proc, cgroups)])))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(proc: Path, cgroups: Path) -> Iterator[float]:
    """Yields the quotas in cores. Without a quota version 2 has `max` and version 1 has -1."""
    for folder in cgroup_folders("cpu", "cpu", proc, cgroups):
        if folder.version == 2:
            quota, _, period = folder.read("cpu.max").partition(" ")
        else:
            quota, period = folder.read(_QUOTA), folder.read(_PERIOD)
        if quota.isdecimal() and period.isdecimal() and int(period):
            yield int(quota) / int(period)
