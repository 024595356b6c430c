"""Memory of this process: how much it may use, how much is resident, and its return to the system."""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

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


def available_memory(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Returns the bytes that this process and its children may use: of its cgroup, else of the machine."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_cgroup_limits(proc, cgroups)])


def _cgroup_limits(proc: Path, cgroups: Path) -> Iterator[int]:
    """Returns the memory limits of the cgroup of this process and of those that contain it.

    A line of /proc/self/cgroup is `hierarchy:controllers:path`; the controllers are empty in version 2. In a
    container the path may be that of the host, while the container's own cgroup is mounted as the root.
    """
    for line in _text(proc / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, name = cgroups, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = cgroups / "memory", "memory.limit_in_bytes"
        else:
            continue
        relative = Path(path.lstrip("/"))
        for folder in (relative, *relative.parents):
            text = _text(root / folder / name).strip()
            if text.isdecimal():  # `max` is no limit
                yield int(text)


def _text(path: Path) -> str:
    """Returns the content of a file, "" if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
