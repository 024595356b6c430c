"""Validates producers' batches without blocking the event loop.

Theory of operation
-------------------

Validation reads every record and holds the GIL meanwhile. A compressed batch of a few hundred bytes may have
250,000 records, so the size of a request is no measure of its cost. Two ways lead to a result:

* *At once* (`validate_now`): a batch with few records and bytes is validated in the caller's step, while
  less than TURN_COST was spent in this turn of the event loop. This is the usual way, without a task switch.
* *Queued* (`validate`): any other batch waits for its turn. One batch at a time is validated, in slices with
  a turn of the event loop between them; a thread unpacks it, because the decoders release the GIL. The memory
  for unpacked records is therefore that of one batch.

The queue is ordered by deadline: the time of arrival plus PATIENCE for each record. Small batches overtake
large ones, and no batch waits forever. An append call has at most one batch in the queue (`CallValidation`),
so a caller with many batches does not delay the others.

A producer's batches must be appended in the order of the call. `CallValidation` therefore queues every batch
behind the earlier ones of its call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count
from typing import Final

from sharebroker_server.record_log.core.batch import BatchHeader, Buffer, parse_headers
from sharebroker_server.record_log.record_headers import RecordHeaders
from sharebroker_server.record_log.record_validation import (
    LogSettings,
    batches_of,
    check_counts,
    check_records,
    plain_batch,
    record_slices,
    validation_groups,
)
from sharebroker_server.record_log.unpacking import UnpacksTooLargeError

TURN_COST: Final = 10_000
"""The cost that may be spent at once in a turn of the event loop, in records; a few milliseconds."""

_BYTES_PER_COST: Final = 128
"""The bytes that take as long as one of the smallest records."""

_AT_ONCE_RECORDS: Final = TURN_COST
_AT_ONCE_BYTES: Final = TURN_COST * _BYTES_PER_COST
"""The largest batch that is validated at once; a full batch of max.message.bytes by default is smaller."""

PATIENCE: Final = 1e-4
"""Seconds per record after which a batch is no longer overtaken by later ones."""


class ValidationQueue:
    """The validations of all partitions of a process."""

    __slots__ = ("_busy", "_numbers", "_spent", "_waiting")

    def __init__(self) -> None:
        self._spent = 0
        self._busy = False
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()

    def validate_now(
        self, settings: LogSettings, data: Buffer, now_ms: int, values: RecordHeaders | None = None
    ) -> list[BatchHeader] | None:
        """Returns the headers of an append's batches after validating them; None if that costs too much.

        Replaces `values` with what the headers of the records have.

        Raises:
            KafkaError: as `LogSettings.headers`.
        """
        if self._spent >= TURN_COST or len(data) > _AT_ONCE_BYTES:
            return None
        self._spend(len(data) // _BYTES_PER_COST)
        headers = parse_headers(data, settings.max_message_bytes)
        check_counts(headers)
        records = sum(header.record_count for header in headers)
        if records > _AT_ONCE_RECORDS:
            return None
        self._spend(records)
        room = _AT_ONCE_BYTES
        if values is not None:
            values.clear()
        for header, batch in batches_of(data, headers):
            try:
                room -= check_records(header, batch, room, values)
            except UnpacksTooLargeError:
                self._spend(room // _BYTES_PER_COST)
                return None
        self._spend((_AT_ONCE_BYTES - room) // _BYTES_PER_COST)
        settings.check_times(headers, now_ms, values)
        return headers

    async def validate(
        self, settings: LogSettings, data: Buffer, now_ms: int, values: RecordHeaders | None = None
    ) -> list[BatchHeader]:
        """Returns the headers of an append's batches after validating them, each group in its turn.

        Replaces `values` with what the headers of the records have.

        Raises:
            KafkaError: as `LogSettings.headers`.
        """
        async with self._turn(len(data) // _BYTES_PER_COST):
            headers = parse_headers(data, settings.max_message_bytes)
            check_counts(headers)
        if values is not None:
            values.clear()
        for group in validation_groups(data, headers):
            async with self._turn(sum(header.record_count for header, _ in group)):
                if len(group) == 1:
                    await _check_in_slices(*group[0], values)
                else:
                    for header, batch in group:
                        check_records(header, batch, values=values)
        settings.check_times(headers, now_ms, values)
        return headers

    def _spend(self, cost: int) -> None:
        if not self._spent and cost:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._spent += cost

    def _next_turn(self) -> None:
        self._spent = 0

    @asynccontextmanager
    async def _turn(self, cost: int) -> AsyncIterator[None]:
        """Waits until no other batch is validated, and for the next turn of the event loop."""
        if self._busy:
            await self._wait(cost)
        self._busy = True
        try:
            await asyncio.sleep(0)
            yield
        finally:
            self._end_turn()

    async def _wait(self, cost: int) -> None:
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        heappush(self._waiting, (loop.time() + cost * PATIENCE, next(self._numbers), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._end_turn()
            raise

    def _end_turn(self) -> None:
        """Passes the turn to the next batch; the queue remains busy for it."""
        while self._waiting:
            _, _, turn = heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._busy = False


async def _check_in_slices(header: BatchHeader, batch: Buffer, values: RecordHeaders | None) -> None:
    """Reads each record of a batch as `check_records`; a thread unpacks it."""
    plain = await asyncio.to_thread(plain_batch, header, batch) if header.codec else batch
    for _ in record_slices(header, plain, values):
        await asyncio.sleep(0)


class CallValidation:
    """Validates the batches of one append call in their order."""

    __slots__ = ("_earlier", "_lock", "_queue")

    def __init__(self, queue: ValidationQueue) -> None:
        self._queue = queue
        self._earlier = 0
        self._lock = asyncio.Lock()

    async def headers(
        self, settings: LogSettings, data: Buffer, now_ms: int, values: RecordHeaders | None = None
    ) -> list[BatchHeader]:
        """Returns the headers of an append's batches after validating them; replaces `values` as the queue.

        If the caller appends them before its next await, the partition gets them in the order of the call.

        Raises:
            KafkaError: as `LogSettings.headers`.
        """
        is_first = not self._earlier
        if is_first and (headers := self._queue.validate_now(settings, data, now_ms, values)) is not None:
            return headers
        self._earlier += 1
        try:
            async with self._lock:
                headers = None if is_first else self._queue.validate_now(settings, data, now_ms, values)
                if headers is None:
                    headers = await self._queue.validate(settings, data, now_ms, values)
                return headers
        finally:
            self._earlier -= 1
