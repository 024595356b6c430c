"""Reads the record logs and the logs of share state in Redis while they grow."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from typing import Any, Final

import redis.asyncio
from redis.exceptions import RedisError

from sharebroker_server.leases import names
from sharebroker_server.share_coordinator.core.state import ShareCheckpoint, ShareDelta
from sharebroker_server.share_coordinator.store.codec import ShareRecordCodec
from tests.chaos.history import History, LogRead
from tests.chaos.ports import Deployed
from tests.testkit.checker.events import Appended, Event, Run, Share, Stored, in_journal

_EVERY: Final = 0.1
_AT_A_TIME: Final = 500
_BATCH: Final = struct.Struct(">qii")
"""Base offset, length, and the leader epoch under which a batch was written."""


class LogReader:
    """Follows the logs of a topic, (name, id), and of share state from their start."""

    def __init__(
        self, history: History, deployment: Deployed, topic: tuple[str, str], partitions: int
    ) -> None:
        self._history = history
        self._client = redis.asyncio.Redis.from_url(deployment.redis_url, socket_timeout=5.0)
        self._topic, self._topic_id = topic
        self.ends = dict.fromkeys(range(partitions), 0)
        """The end offsets of the topic's logs, as read."""
        self._codec = ShareRecordCodec()
        keys = deployment.keys
        self._records = {
            keys.log(names.partition(self._topic_id, number)).encode(): number for number in range(partitions)
        }
        shards = (keys.log(names.shard("share-coordinator", number)).encode() for number in range(50))
        self._read_to: dict[bytes, bytes] = dict.fromkeys([*self._records, *shards], b"0-0")

    async def run(self) -> None:
        """Reads until it is cancelled."""
        while True:
            await self.read()
            await asyncio.sleep(_EVERY)

    async def read(self) -> None:
        """Reads new entries; none while Redis is unavailable."""
        began = self._history.now()
        try:
            events = await self._new()
        except RedisError:
            return
        ended = self._history.now()
        self._history.reads.append(LogRead(began, ended, events))

    async def close(self) -> None:
        """Reads the remaining entries and disconnects."""
        await self.read()
        await self._client.aclose()

    async def _new(self) -> list[Event]:
        rows: list[tuple[bytes, bytes, Mapping[bytes, bytes]]] = []
        read_to = dict(self._read_to)
        while True:
            response: Any = await self._client.xread(dict(read_to), count=_AT_A_TIME)  # type: ignore[arg-type]
            for key, entries in response:
                rows += [(key, entry_id, fields) for entry_id, fields in entries]
                read_to[key] = entries[-1][0]
            if not any(len(entries) == _AT_A_TIME for _, entries in response):
                break
        self._read_to = read_to
        now = self._history.now()
        return [event for key, entry, fields in rows if (event := self._event(now, key, entry, fields))]

    def _event(self, now: float, key: bytes, entry_id: bytes, fields: Mapping[bytes, bytes]) -> Event | None:
        if key in self._records:
            first, _, epoch = _BATCH.unpack_from(fields[b"b"])
            last = int(entry_id.partition(b"-")[0]) - 1
            self.ends[self._records[key]] = last + 1
            return Appended(now, f"{self._topic}-{self._records[key]}", epoch, first, last)
        record = self._codec.decode(fields[b"p"])
        if not isinstance(record, ShareCheckpoint | ShareDelta) or record.key.topic_id != self._topic_id:
            return None
        whole = isinstance(record, ShareCheckpoint)
        return Stored(
            now,
            Share(record.key.group_id, self._topic, record.key.partition),
            whole,
            record.state_epoch if isinstance(record, ShareCheckpoint) else -1,
            record.leader_epoch,
            record.start_offset,
            tuple(map(Run.of, record.state_batches)),
            *in_journal(record.failed),
        )
