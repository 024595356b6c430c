"""Completes decided transactions: writes markers to the partitions, then records the completion."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.clients.markers import Markers
from sharebroker_server.group_coordinator.core.transactions import rules
from sharebroker_server.group_coordinator.core.transactions.commands import Ended
from sharebroker_server.group_coordinator.core.transactions.model import Transaction
from sharebroker_server.group_coordinator.service.transactions.shards import TransactionShards

_log = structlog.get_logger()

FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 1.0
"""Seconds before a failed attempt is repeated; the pause doubles up to the maximum."""


class Completions:
    """Runs one task per decided transaction; the task ends when it is completed or the shard is lost."""

    def __init__(self, shards: TransactionShards, markers: Markers) -> None:
        self._shards = shards
        self._markers = markers
        self._running: dict[str, asyncio.Task[None]] = {}

    def begin(self, transactional_id: str) -> None:
        """Starts the completion in the background unless it is running.

        A transaction that is not decided is left alone.
        """
        if transactional_id not in self._running:
            task = asyncio.create_task(
                self._run(transactional_id), name=f"complete transaction {transactional_id}"
            )
            self._running[transactional_id] = task
            task.add_done_callback(lambda _: self._running.pop(transactional_id))

    async def wait(self, transactional_id: str, timeout: float) -> bool:
        """Waits up to `timeout` seconds for a running completion; returns whether none is running."""
        task = self._running.get(transactional_id)
        if task is not None:
            await asyncio.wait([task], timeout=max(timeout, 0.0))
        return transactional_id not in self._running

    async def close(self) -> None:
        """Cancels running completions; the next owner of the shard repeats them."""
        await end(self._running.values())

    async def _run(self, transactional_id: str) -> None:
        attempt = _Attempt(transactional_id, self._shards, self._markers)
        pause = FIRST_PAUSE
        while not await _finished(attempt):
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


class _Attempt:
    """The completion of one transaction, and the partitions that lack their marker."""

    def __init__(self, transactional_id: str, shards: TransactionShards, markers: Markers) -> None:
        self.transactional_id = transactional_id
        self._shards = shards
        self._markers = markers
        self._decided: Transaction | None = None
        self._unmarked: Collection[TopicIdPartition] = ()

    async def advance(self) -> bool:
        """Tries once; returns whether the transaction is completed. Raises KafkaError."""
        # Read again for each attempt: only the current owner writes markers, with its current epoch.
        epoch = self._shards.epoch(self.transactional_id)
        decided = await self._shards.ending(self.transactional_id)
        if decided is None:
            return True
        if decided != self._decided:
            self._decided, self._unmarked = decided, decided.partitions
        self._unmarked = await self._markers.write(decided, self._unmarked, epoch)
        if self._unmarked:
            return False
        await self._shards.request(Ended(self.transactional_id, rules.producer_of(decided)))
        return True


async def _finished(attempt: _Attempt) -> bool:
    """Tries once; returns whether this process has nothing more to do."""
    try:
        return await attempt.advance()
    except KafkaError as error:
        _log.info(
            "transaction not completed yet", transactional_id=attempt.transactional_id, error=str(error)
        )
        return error.code is ErrorCode.NOT_COORDINATOR
    except Exception:  # without a retry the partitions would never get their markers
        _log.exception("transaction completion failed", transactional_id=attempt.transactional_id)
        return False
