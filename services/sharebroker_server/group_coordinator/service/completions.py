"""Completes decided transactions in the background: markers in every partition, then the second record."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.clients.markers import Markers
from sharebroker_server.group_coordinator.core.transactions import commands as c
from sharebroker_server.group_coordinator.core.transactions import rules
from sharebroker_server.group_coordinator.core.transactions.model import Transaction
from sharebroker_server.group_coordinator.service.shards import TransactionHost

_log = structlog.get_logger()

FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 1.0
"""Seconds before a failed attempt is repeated; the pause doubles up to the maximum."""


class Completions:
    """Runs one task per decided transaction; the task ends when it is completed or the shard is lost."""

    def __init__(self, host: TransactionHost, markers: Markers) -> None:
        self._host = host
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

    async def decided(self, command: c.OfTransaction, timeout: float) -> c.Reply:
        """Returns the reply; waits up to `timeout` seconds for the completion of the transaction before.

        Kafka rejects such a request at once, and its clients poll. Raises CONCURRENT_TRANSACTIONS.
        """
        name, loop = command.transactional_id, asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            try:
                reply = await self._host.of(name).submit(command)
                if not isinstance(reply, c.Aborting):
                    return reply
                rejection = rules.concurrent(name)
            except KafkaError as error:
                if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    raise
                rejection = error
            self.begin(name)
            if not await self.wait(name, deadline - loop.time()) or loop.time() >= deadline:
                raise rejection

    async def close(self) -> None:
        """Cancels running completions; the next owner of the shard repeats them."""
        await end(self._running.values())

    async def _run(self, transactional_id: str) -> None:
        attempt = _Attempt(transactional_id, self._host, self._markers)
        pause = FIRST_PAUSE
        while not await attempt.finished():
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


class _Attempt:
    """The completion of one transaction, and the partitions that lack their marker."""

    def __init__(self, transactional_id: str, host: TransactionHost, markers: Markers) -> None:
        self._transactional_id = transactional_id
        self._host = host
        self._markers = markers
        self._decided: Transaction | None = None
        self._unmarked: Collection[TopicIdPartition] = ()

    async def finished(self) -> bool:
        """Tries once; returns whether this process has nothing more to do."""
        try:
            return await self._advance()
        except KafkaError as error:
            _log.info(
                "transaction not completed yet", transactional_id=self._transactional_id, error=str(error)
            )
            return error.code is ErrorCode.NOT_COORDINATOR
        except Exception:  # without a retry the partitions would never get their markers
            _log.exception("transaction completion failed", transactional_id=self._transactional_id)
            return False

    async def _advance(self) -> bool:
        """Tries once; returns whether the transaction is completed. Raises KafkaError."""
        # Looked up again for each attempt: only the current owner writes markers, with its current epoch.
        shard = self._host.of(self._transactional_id)
        epoch = shard.epoch
        decided = await shard.submit(c.ReadEnding(self._transactional_id))
        if not isinstance(decided, Transaction):
            return True
        if decided != self._decided:
            self._decided, self._unmarked = decided, decided.partitions
        self._unmarked = await self._markers.write(decided, self._unmarked, epoch)
        if self._unmarked:
            return False
        ended = c.Ended(self._transactional_id, rules.producer_of(decided))
        await self._host.of(self._transactional_id).submit(ended)
        return True
