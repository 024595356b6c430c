"""Appends on their way to the store: they wait in a queue and leave in groups."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core import producer_snapshots
from sharebroker_server.record_log.core.batch import LEADER_EPOCH, BatchHeader, Buffer, StoredBatch, assign
from sharebroker_server.record_log.core.control import marker_batch
from sharebroker_server.record_log.core.producers import Marker, Verified
from sharebroker_server.record_log.core.transactions import Draft
from sharebroker_server.record_log.lifecycle import RETRY_AFTER
from sharebroker_server.record_log.port import NO_NOTES


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a produce request went; `log_append_time` in ms, -1 unless the topic uses LogAppendTime."""

    base_offset: int
    last_offset: int
    log_append_time: int


class Append(Protocol):
    """Something to be appended; `answer` is set once it is durable, or why it is not."""

    answer: asyncio.Future[Appended]

    @property
    def size(self) -> int:
        """Bytes that it holds."""

    def put(self, group: Group) -> tuple[Sequence[StoredBatch], Appended]:
        """Its batches behind the others of the group, none where they are in the log already.

        Raises KafkaError.
        """


@dataclass(slots=True)
class Records:
    """The batches of a produce request."""

    data: Buffer
    headers: list[BatchHeader]
    verified: Verified | None
    answer: asyncio.Future[Appended]

    @property
    def size(self) -> int:
        """See Append."""
        return len(self.data)

    def put(self, group: Group) -> tuple[Sequence[StoredBatch], Appended]:
        """See Append."""
        stamp = group.log_append_ms
        first = self.headers[0]
        if first.producer_id >= 0:
            earlier = group.draft.append(first, group.offset, group.now_ms, self.verified)
            if earlier is not None:
                return (), Appended(
                    earlier.base_offset, earlier.last_offset, -1 if stamp is None else earlier.timestamp
                )
        batches = assign(self.data, self.headers, group.offset, LEADER_EPOCH, stamp)
        return batches, Appended(group.offset, batches[-1].last_offset, -1 if stamp is None else stamp)


@dataclass(slots=True)
class TransactionEnd:
    """A marker."""

    marker: Marker
    answer: asyncio.Future[Appended]

    @property
    def size(self) -> int:
        """See Append."""
        return 0

    def put(self, group: Group) -> tuple[Sequence[StoredBatch], Appended]:
        """See Append."""
        group.draft.end(self.marker, group.offset, group.now_ms)
        batch = marker_batch(self.marker, group.offset, LEADER_EPOCH, group.now_ms)
        return (batch,), Appended(group.offset, group.offset, -1)


class Group:
    """What goes to the store in one step. `offset` is where the next append of it goes; times in ms."""

    __slots__ = ("_answers", "batches", "draft", "log_append_ms", "now_ms", "offset")

    def __init__(self, draft: Draft, offset: int, now_ms: int, log_append_ms: int | None) -> None:
        self.draft = draft
        self.offset = offset
        self.now_ms = now_ms
        self.log_append_ms = log_append_ms
        self.batches: list[StoredBatch] = []
        self._answers: list[tuple[Append, Appended | KafkaError]] = []

    def add(self, append: Append) -> None:
        """Put an append behind the others; what it may not do is answered with the rest."""
        try:
            batches, appended = append.put(self)
        except KafkaError as error:
            self._answers.append((append, error))
            return
        self.batches += batches
        if batches:
            self.offset = appended.last_offset + 1
        self._answers.append((append, appended))

    @property
    def notes(self) -> Mapping[str, bytes]:
        """What the store is to keep beside the batches."""
        return producer_snapshots.of_draft(self.draft) if self.draft.producers else NO_NOTES

    def answer(self) -> None:
        """Everything of it is durable."""
        for append, answer in self._answers:
            if isinstance(answer, KafkaError):
                refuse(append, answer)
            elif not append.answer.done():
                append.answer.set_result(answer)

    def refuse(self, error: KafkaError) -> None:
        """Nothing of it is surely durable, so nothing that rests on it holds."""
        for append, _ in self._answers:
            refuse(append, error)


class AppendQueue:
    """What waits for the group before it."""

    __slots__ = ("_bytes", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[Append] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, append: Append, max_bytes: int) -> None:
        """Take an append in. Raises THROTTLING_QUOTA_EXCEEDED when `max_bytes` would wait, and others do."""
        if self._waiting and self._bytes + append.size > max_bytes:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"{self._bytes} bytes wait to be appended.",
                retry_after=RETRY_AFTER,
            )
        self._waiting.append(append)
        self._bytes += append.size

    def take(self, max_bytes: int) -> list[Append]:
        """The oldest in order, as many as it takes to have `max_bytes`."""
        taken: list[Append] = []
        size = 0
        while self._waiting and size < max_bytes:
            append = self._waiting.popleft()
            size += append.size
            taken.append(append)
        self._bytes -= size
        return taken

    def refuse_all(self, error: KafkaError) -> None:
        """Answer whatever waits; none of it has been sent."""
        waiting, self._waiting = self._waiting, deque()
        self._bytes = 0
        for append in waiting:
            refuse(append, error)


def refuse(append: Append, error: KafkaError) -> None:
    """Answer with an error, unless whoever asked has gone."""
    if not append.answer.done():
        append.answer.set_exception(error)
