"""Record logs in Redis: a stream of batches a partition, a small stream of index rows, and the log start.

The id of an entry is the batch's last offset plus one (Redis has no id 0-0): Redis itself refuses what is out
of order, a range query finds the batch of an offset, and the last id is the log end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from libs.record_log.core.batch import StoredBatch
from libs.record_log.core.segments import Segment
from libs.record_log.port import Bounds
from libs.redis_link.errors import RedisError, RedisOutcomeUnknown, RedisRefused, RedisUnavailable
from libs.redis_link.keys import Keys
from libs.redis_link.link import Part, RedisLink
from libs.stream_log.port import LogFenced, LogNotWritten, LogOutcomeUnknown, LogOutOfOrder, LogUnavailable

_FIRST_COUNT: Final = 4
_LARGEST_COUNT: Final = 256


class RedisRecordStore:
    """The record store on one Redis or Valkey server. It never waits longer than its link does."""

    def __init__(self, link: RedisLink, keys: Keys) -> None:
        self._link = link
        self._keys = keys
        self._append = link.script(_source("append.lua"))
        self._trim = link.script(_source("trim.lua"))
        self._bounds = link.script(_source("bounds.lua"))

    async def append(
        self,
        partition: str,
        epoch: int,
        batches: Sequence[StoredBatch],
        segments: Sequence[Segment] = (),
    ) -> None:
        """As the port says."""
        args: list[Part] = [epoch, batches[0].base_offset, len(batches)]
        for batch in batches:
            args += (f"{batch.last_offset + 1}-0", batch.data)
        for row in segments:
            args += (f"{row.end_offset}-0", row.base_offset, row.size, row.max_timestamp)
        keys = (self._keys.lease(partition), self._keys.log(partition), self._index(partition))
        await _written(self._append.send(keys, args))

    async def read(self, partition: str, offset: int, max_bytes: int) -> list[StoredBatch]:
        """As the port says: a few entries at first, then as many as their size says will fit."""
        batches: list[StoredBatch] = []
        start, left, count = f"{offset + 1}-0", max_bytes, _FIRST_COUNT
        while True:
            entries = await _answered(
                self._link.send("XRANGE", self._keys.log(partition), start, "+", "COUNT", count)
            )
            for _, (_, data) in entries:
                if batches and len(data) > left:
                    return batches
                batches.append(StoredBatch.from_bytes(data))
                left -= len(data)
            if len(entries) < count or left <= 0:
                return batches
            start = f"({batches[-1].last_offset + 1}-0"
            count = min(left * len(batches) // (max_bytes - left) + 1, _LARGEST_COUNT)

    async def bounds(self, partition: str) -> Bounds:
        """As the port says."""
        keys = (self._keys.log(partition), self._keys.meta(partition))
        log_start, last_id = await _answered(self._bounds.send(keys, ()))
        return Bounds(int(log_start), _offset(last_id))

    async def segments(self, partition: str) -> list[Segment]:
        """As the port says."""
        meta, rows = (
            self._link.send("HGET", self._keys.meta(partition), "log_start"),
            self._link.send("XRANGE", self._index(partition), "-", "+"),
        )
        log_start = int(await _answered(meta) or 0)
        segments = [_segment(row_id, fields) for row_id, fields in await _answered(rows)]
        return [segment for segment in segments if segment.end_offset > log_start]

    async def trim(self, partition: str, epoch: int, log_start_offset: int) -> None:
        """As the port says; works when Redis is out of memory too."""
        keys = (
            self._keys.lease(partition),
            self._keys.log(partition),
            self._index(partition),
            self._keys.meta(partition),
        )
        await _written(self._trim.send(keys, (epoch, log_start_offset)))

    async def delete(self, partition: str) -> None:
        """As the port says."""
        keys = (self._keys.log(partition), self._index(partition), self._keys.meta(partition))
        await _written(self._link.send("UNLINK", *keys))

    def _index(self, partition: str) -> str:
        return f"{self._keys.log(partition)}:index"


def _source(name: str) -> str:
    return Path(__file__).with_name(name).read_text()


def _offset(entry_id: bytes) -> int:
    return int(entry_id.partition(b"-")[0])


def _segment(row_id: bytes, fields: Sequence[bytes]) -> Segment:
    _, base, _, size, _, newest = fields
    return Segment(int(base), _offset(row_id), int(size), int(newest))


async def _written(reply: asyncio.Future[Any]) -> None:
    """Await a write and sort its failure."""
    try:
        await reply
    except RedisUnavailable as error:
        raise LogNotWritten(str(error)) from error
    except RedisOutcomeUnknown as error:
        raise LogOutcomeUnknown(str(error)) from error
    except RedisRefused as error:
        if error.code == "FENCED":
            raise LogFenced(error.text) from error
        # Plain ERR is XADD's: the id is not above the last one, which may be trimmed already.
        if error.code in ("STALE", "ERR"):
            raise LogOutOfOrder(error.text) from error
        raise LogNotWritten(str(error)) from error


async def _answered(reply: asyncio.Future[Any]) -> Any:
    """Await a read."""
    try:
        return await reply
    except RedisError as error:
        raise LogUnavailable(str(error)) from error
