"""A stream log with metrics: appends, bytes and latency."""

from __future__ import annotations

from collections.abc import Sequence

from sharebroker_server.leases.names import kind_of
from sharebroker_server.stream_log.port import StreamLog
from sharebroker_server.telemetry.process import Appends


class MeteredStreamLog:
    """Delegates to another log and counts every append by the kind of its shard."""

    def __init__(self, log: StreamLog, appends: Appends) -> None:
        self._log = log
        self._appends = appends
        self.read = log.read
        self.last_position = log.last_position
        self.trim = log.trim
        self.delete = log.delete

    async def append(self, shard: str, epoch: int, first_position: int, payloads: Sequence[bytes]) -> None:
        """Appends and measures. Raises as the log does."""
        with self._appends.of(kind_of(shard)).timed(len(payloads), sum(map(len, payloads))):
            await self._log.append(shard, epoch, first_position, payloads)
