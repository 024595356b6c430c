"""CPU time and memory of a process and its descendants, from Linux's /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
TICKS: Final = os.sysconf("SC_CLK_TCK")
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Stat:
    """What /proc/PID/stat reports of a process. CPU in clock ticks: its own, and its ended children's."""

    pid: int
    parent: int
    ticks: int
    children_ticks: int
    rss_pages: int

    @classmethod
    def parse(cls, text: str) -> Stat:
        """Reads the line of /proc/PID/stat; the name in parentheses may hold blanks and parentheses."""
        head, _, tail = text.rpartition(")")
        fields = tail.split()  # from field 3 of proc(5), the state
        user, system, children_user, children_system = map(int, fields[11:15])
        return cls(
            int(head.partition(" ")[0]),
            int(fields[1]),
            user + system,
            children_user + children_system,
            int(fields[21]),
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds used so far, and resident memory in bytes, of a whole process tree."""

    cpu: float = 0.0
    rss: int = 0

    @classmethod
    def of(cls, stats: Iterable[Stat]) -> Usage:
        """The sums over `stats`.

        The time of children that ended counts too. It is their parent's from the moment it waited for them,
        so no time is counted twice or lost.
        """
        cpu = rss = 0
        for stat in stats:
            cpu += stat.ticks + stat.children_ticks
            rss += stat.rss_pages
        return cls(cpu / TICKS, rss * PAGE_BYTES)


def tree(root: int, stats: Mapping[int, Stat]) -> list[Stat]:
    """The process `root` and all its descendants among `stats`."""
    children: dict[int, list[Stat]] = {}
    for stat in stats.values():
        children.setdefault(stat.parent, []).append(stat)
    found = [stats[root]] if root in stats else []
    for stat in found:
        found += children.get(stat.pid, [])
    return found


def usage(pids: Iterable[int], proc: Path = PROC) -> Usage:
    """The usage of processes and their descendants; none where there is no /proc (not Linux)."""
    stats = {stat.pid: stat for stat in _all(proc)}
    found = {stat.pid: stat for pid in pids for stat in tree(pid, stats)}
    return Usage.of(found.values())


def command_line(pid: int, proc: Path = PROC) -> list[str]:
    """The words of a process's command line; none when it has ended."""
    try:
        return (proc / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def _all(proc: Path) -> Iterator[Stat]:
    try:
        names = os.listdir(proc)
    except OSError:
        return
    for name in names:
        if name.isdigit():
            try:
                yield Stat.parse((proc / name / "stat").read_text(errors="replace"))
            except OSError:
                continue  # it ended meanwhile
