"""The log of a partition as the log of a shard: control batches are appended, the indexed records loaded.

A position is the number of a control record since the load, because the runtime needs it before the
partition's log assigns an offset.

The lease is that of the partition. The partition's log compares and renews it, so `LogLease` refers to the
log. A write of unknown outcome makes the log recover; the shard loads again once that is done.
"""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.leases.port import LeaseLost, LeasesUnavailable, Ownership
from sharebroker_server.record_log.lifecycle import LogPhase
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.share_coordinator.store.control_codec import ControlPayload
from sharebroker_server.stream_log.port import (
    Entry,
    LogError,
    LogFenced,
    LogNotWritten,
    LogOutcomeUnknown,
    LogOutOfOrder,
    LogUnavailable,
    StreamLog,
)


class PartitionStateLog(StreamLog):
    """The control records of one partition as the log of a shard."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._loaded: list[Entry] = []
        self._last = 0

    @override
    async def append(self, shard: str, epoch: int, first_position: int, payloads: Sequence[bytes]) -> None:
        if first_position != self._last + 1:
            raise LogOutOfOrder(f"{shard}: {self._last} control records, not {first_position - 1}")
        records = [payload.record for payload in payloads if isinstance(payload, ControlPayload)]
        try:
            await self._log.append_state(records)
        except KafkaError as error:
            raise _log_error(error) from error
        self._last += len(payloads)

    @override
    async def read(self, shard: str, after: int, limit: int) -> list[Entry]:
        if not after:
            try:
                records = await self._log.state_records()
            except KafkaError as error:
                raise LogUnavailable(error.message) from error
            self._loaded = [
                Entry(position, ControlPayload.of_stored(record))
                for position, (_, record) in enumerate(records, 1)
            ]
            self._last = len(records)
        page = self._loaded[after : after + limit]
        if not page:
            self._loaded = []
        return page

    @override
    async def last_position(self, shard: str) -> int:
        return self._last

    @override
    async def trim(self, shard: str, epoch: int, before: int) -> None:
        """Does nothing: the partition's retention trims the log, up to the Earliest Share Offset."""

    @override
    async def delete(self, shard: str) -> None:
        """Does nothing: the log is deleted with its partition."""


class LogLease(Ownership):
    """The lease of a partition as its log has it, whatever epoch the log has raised it to."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log

    @override
    def holds(self, epoch: int) -> bool:
        return self._log.leads

    @override
    async def reclaim(self) -> int:
        if self._log.phase is LogPhase.RECOVERING:
            raise LeasesUnavailable("the log of the partition recovers")
        if self._log.phase is LogPhase.CLOSED:
            raise LeaseLost(self._log.partition)
        return self._log.epoch


def _log_error(error: KafkaError) -> LogError:
    """Returns what an error of `PartitionLog.append_state` means for the shard."""
    if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return LogFenced(error.message)
    if error.code is ErrorCode.REQUEST_TIMED_OUT:
        return LogOutcomeUnknown(error.message)
    return LogNotWritten(error.message)
