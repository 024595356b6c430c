"""Memory of the embedded Valkey: its default limit, and how much of the limit is in use.

Valkey compares its memory with `maxmemory` before each command. At the limit it rejects the script that
appends records; all other scripts may exceed the limit (flag allow-oom). Their memory, the pages that are
copied while the append-only file is rewritten, and fragmentation need the memory that the default limit
leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, NamedTuple

import structlog

from sharebroker_server.process_memory import available_memory
from sharebroker_server.telemetry.metrics import Family, gauge

_log = structlog.get_logger()

SERVER_SHARE: Final = 4
"""The server gets one part of this many of the memory."""

SERVER_MINIMUM: Final = 256 << 20
"""Bytes that each process of the server gets at least."""

SMALLEST_LIMIT: Final = 32 << 20
"""Bytes of the smallest limit: an idle cluster of one process uses about 3 MiB."""

RESUMED: Final = 0.95
"""Share of the limit below which a line reports that records are accepted again."""


def default_limit(memory: int | None = None, processes: int = 1) -> int:
    """Returns the limit of Valkey's data in bytes, of `memory` bytes for the server and Valkey.

    Without `memory` it is what this process and its children may use. `processes` are those of the server.

    A quarter is for the server. Half of the rest is for data: in the worst case every page changes while the
    child that rewrites the append-only file still has its copy.
    """
    memory = available_memory() if memory is None else memory
    server = max(memory // SERVER_SHARE, SERVER_MINIMUM * processes)
    return max((memory - server) // 2, SMALLEST_LIMIT)


class MemorySample(NamedTuple):
    """The memory of a server that counts towards its limit, and the limit, in bytes; 0 for none."""

    used: int
    limit: int

    @classmethod
    def from_info(cls, info: bytes) -> MemorySample:
        """Reads the section `memory` of INFO; without `maxmemory` the machine's memory is the limit."""
        fields = _fields(info)
        limit = int(fields.get("maxmemory", 0)) or int(fields.get("total_system_memory", 0))
        return cls(_counted(fields), limit)


def _fields(info: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in info.decode().splitlines())
    return {name: value.strip() for name, _, value in lines}


def _counted(fields: Mapping[str, str]) -> int:
    return int(fields["used_memory"]) - int(fields.get("mem_not_counted_for_evict", 0))


class MemoryUse:
    """The memory in use and its limit, in bytes, as INFO last reported them; `limit` 0 is none.

    Whether Valkey rejects records is read from its count of errors: between two samples its memory may be
    above the limit only while it holds the request.
    """

    SECTIONS: ClassVar = ("memory", "errorstats")
    """The sections of INFO that `observe` reads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._rejections = 0
        self._full = False

    def observe(self, info: bytes, *, disk_full: bool = False) -> None:
        """Reads INFO; logs when the limit is reached and when records fit again.

        With `disk_full`, rejections do not mean that the limit is reached.
        """
        fields = _fields(info)
        self.used = _counted(fields)
        rejections = int(fields.get("errorstat_OOM", "count=0").removeprefix("count="))
        rejected = rejections > self._rejections and not disk_full
        self._rejections = rejections
        if rejected and not self._full:
            self._full = True
            _log.error("memory limit reached; rejecting records", used=self.used, limit=self.limit)
        elif self._full and not rejected and self.used < self.limit * RESUMED:
            self._full = False
            _log.info("memory below its limit; accepting records", used=self.used, limit=self.limit)

    def families(self) -> Iterable[Family]:
        """Returns the metric families."""
        yield gauge("sharebroker_embedded_memory_bytes", "Memory of the embedded Valkey.", [((), self.used)])
        yield gauge(
            "sharebroker_embedded_memory_limit_bytes",
            "Memory of the embedded Valkey at which it rejects records; 0 for no limit.",
            [((), self.limit)],
        )
