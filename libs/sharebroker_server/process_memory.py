"""Memory of this process: how much it may use, how much is resident, and its return to the system."""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from sharebroker_server.cgroups import CGROUPS, PROC, cgroup_folders

_PAGE: Final = resource.getpagesize()


def resident_memory() -> int:
    """Returns the resident memory in bytes; its maximum on systems without /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def trim_memory() -> None:
    """Returns freed memory to the system, if the allocator is glibc's."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def available_memory(proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """Returns the bytes that this process and its children may use: of its cgroup, else of the machine."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_cgroup_limits(proc, cgroups)])


def _cgroup_limits(proc: Path, cgroups: Path) -> Iterator[int]:
    for folder in cgroup_folders("memory", "memory", proc, cgroups):
        text = folder.read("memory.max" if folder.version == 2 else "memory.limit_in_bytes")
        if text.isdecimal():  # `max` is no limit
            yield int(text)
