"""Combines the state writes of one turn of the event loop: one request per shard of the share coordinator.

A share-partition registers with `add` when it has something to write. At the end of the turn the batcher
requests the write, so that everything the turn brought is part of it, and sends it. Each source has at most
one write in flight, which `written` completes.

What happens when a write fails is decided here and in one other place. Here: a write that the shard in this
process did not accept at once is repeated alone through `Persister.write`, which finds the shard's owner,
retries with backoff and, for another process, combines it with other requests to that process. There:
SharePartition receives the final error and rolls back (`WriteCompleted`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, Protocol

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateWrite
from sharebroker_protocol.tracing import enabled
from sharebroker_server.persister.port import Begun, Persister

_log = structlog.get_logger()


class WriteSource(Protocol):
    """A share-partition that has state to write."""

    @property
    def key(self) -> SharePartitionKey:
        """The share-partition."""

    @property
    def shard(self) -> int:
        """The shard that stores its state."""

    @property
    def write_span(self) -> Any:
        """The span of the write that `next_write` returned last; None if it is not traced."""

    def next_write(self) -> StateWrite | None:
        """Returns what is to be written now; None if nothing has to be."""

    def written(self, error: KafkaError | None) -> None:
        """The write is durable, or failed."""


class _Write(NamedTuple):
    source: WriteSource
    change: StateWrite


class WriteBatcher:
    """Collects sources until the end of the turn and sends their writes, one request per shard."""

    def __init__(self, persister: Persister) -> None:
        self._persister = persister
        self._due: dict[int, list[WriteSource]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, source: WriteSource) -> None:
        """Registers a source; its `next_write` is called once, at the end of this turn."""
        if not self._due:
            asyncio.get_running_loop().call_soon(self._send_all)
        self._due.setdefault(source.shard, []).append(source)

    def _send_all(self) -> None:
        due, self._due = self._due, {}
        for shard, sources in due.items():
            together = []
            for source in sources:
                change = source.next_write()
                if change is None:
                    continue
                write = _Write(source, change)
                if source.write_span is None:
                    together.append(write)
                else:  # in a task, whose requests are part of the span
                    self._send_alone(write)
            if together:
                self._send_together(shard, together)

    def _send_together(self, shard: int, writes: Sequence[_Write]) -> None:
        """Sends to the shard if it is in this process; each write alone if it is not, or fails at once."""
        try:
            begun = self._persister.begin(shard, [(write.source.key, write.change) for write in writes])
        except Exception:
            _log.exception("state writes could not be started", shard=shard, writes=len(writes))
            begun = None
        if begun is None:
            for write in writes:
                self._send_alone(write)
        else:
            begun.add_done_callback(partial(self._completed, writes))

    def _completed(self, writes: Sequence[_Write], begun: Begun) -> None:
        failure = begun.exception()
        for write, outcome in zip(
            writes, begun.result() if failure is None else repeat(failure), strict=False
        ):
            if isinstance(outcome, Exception):
                self._send_alone(write)
                continue
            try:
                write.source.written(None)
            except Exception:  # must not keep the outcome from the other sources
                _log.exception("completion of a state write failed", key=str(write.source.key))

    def _send_alone(self, write: _Write) -> None:
        task = asyncio.create_task(self._write(write))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, write: _Write) -> None:
        source, error = write.source, None
        try:
            with nullcontext() if enabled.on is None else enabled.on.within(source.write_span):
                await self._persister.write(source.key, write.change)
        except KafkaError as failure:
            error = failure
        except Exception:
            _log.exception("state write failed", key=str(source.key))
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        source.written(error)
