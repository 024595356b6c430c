"""Ends transactions that were decided: markers to the partitions, then a record that they are there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.clients.markers import Markers
from sharebroker_server.group_coordinator.core.transactions import rules
from sharebroker_server.group_coordinator.core.transactions.commands import Ended
from sharebroker_server.group_coordinator.core.transactions.model import Transaction
from sharebroker_server.group_coordinator.service.transaction_shards import TransactionShards

_logger = logging.getLogger(__name__)

FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 1.0
"""Seconds before what could not be done is tried again; the pause doubles."""


class Endings:
    """One task for each transactional id whose transaction is being ended; it ends when the shard goes."""

    def __init__(self, shards: TransactionShards, markers: Markers) -> None:
        self._shards = shards
        self._markers = markers
        self._running: dict[str, asyncio.Task[None]] = {}

    def begin(self, transactional_id: str) -> None:
        """Ends the transaction in the background, if it is to be ended and nobody does so already."""
        if transactional_id not in self._running:
            task = asyncio.create_task(self._run(transactional_id), name=f"end {transactional_id}")
            self._running[transactional_id] = task
            task.add_done_callback(lambda _: self._running.pop(transactional_id))

    async def settled(self, transactional_id: str, timeout: float) -> bool:
        """Whether what is being ended came to its end within `timeout` seconds."""
        task = self._running.get(transactional_id)
        if task is not None:
            await asyncio.wait([task], timeout=max(timeout, 0.0))
        return transactional_id not in self._running

    async def close(self) -> None:
        """Gives up what is under way; the next coordinator ends it."""
        await end(self._running.values())

    async def _run(self, transactional_id: str) -> None:
        attempt = _Attempt(transactional_id, self._shards, self._markers)
        pause = FIRST_PAUSE
        while not await _finished(attempt):
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


class _Attempt:
    """The ending of one transactional id's transaction, and which partitions have their marker already."""

    def __init__(self, transactional_id: str, shards: TransactionShards, markers: Markers) -> None:
        self.transactional_id = transactional_id
        self._shards = shards
        self._markers = markers
        self._ending: Transaction | None = None
        self._left: Collection[TopicIdPartition] = ()

    async def go_on(self) -> bool:
        """Whether nothing is left to do. Raises KafkaError."""
        # Asked anew each time: only the present owner writes markers, with its present epoch.
        epoch = self._shards.epoch(self.transactional_id)
        ending = await self._shards.ending(self.transactional_id)
        if ending is None:
            return True
        if ending != self._ending:
            self._ending, self._left = ending, ending.partitions
        self._left = await self._markers.write(ending, self._left, epoch)
        if self._left:
            return False
        await self._shards.ask(Ended(self.transactional_id, rules.producer_of(ending)))
        return True


async def _finished(attempt: _Attempt) -> bool:
    """Whether nothing is left to do for this process."""
    try:
        return await attempt.go_on()
    except KafkaError as error:
        _logger.info("the transaction of %r is not ended yet: %s", attempt.transactional_id, error)
        return error.code is ErrorCode.NOT_COORDINATOR
    except Exception:  # partitions would wait for their marker for ever
        _logger.exception("ending the transaction of %r failed", attempt.transactional_id)
        return False
