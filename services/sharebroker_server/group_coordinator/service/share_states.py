"""Has share state initialised and deleted, and reports to the group how that ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, TopicIdPartition
from sharebroker_server.group_coordinator.core.commands import (
    DeletePlan,
    InitializeState,
    StateDeleted,
    StateInitialized,
)
from sharebroker_server.group_coordinator.service.shards import Shards
from sharebroker_server.persister.port import Persister

_logger = logging.getLogger(__name__)

Failures = Mapping[TopicIdPartition, KafkaError]


class ShareStates:
    """`timeout` in seconds for all attempts at one change."""

    def __init__(self, persister: Persister, shards: Shards, timeout: float) -> None:
        self._persister = persister
        self._shards = shards
        self._timeout = timeout
        self._running: dict[str, set[asyncio.Task[None]]] = {}

    def begin(self, plan: InitializeState) -> None:
        """Initialises in the background, for whoever waits with `settled`."""
        task = asyncio.create_task(
            self._initialize_and_log(plan), name=f"initialise state of {plan.group_id}"
        )
        running = self._running.setdefault(plan.group_id, set())
        running.add(task)
        task.add_done_callback(lambda _: self._ended(plan.group_id, task))

    def busy(self, group_id: str) -> bool:
        """Whether state of the group is being initialised in the background."""
        return group_id in self._running

    async def settled(self, group_id: str, timeout: float) -> None:
        """Until what is being initialised in the background has come to an end, or `timeout` seconds."""
        running = self._running.get(group_id)
        if running:
            await asyncio.wait(running, timeout=timeout)

    async def close(self) -> None:
        """Gives up what is under way; the next coordinator begins it again."""
        await end(task for running in self._running.values() for task in running)

    async def initialize(self, plan: InitializeState) -> Failures:
        """Initialises and reports; what failed, by partition. Raises KafkaError if it cannot be reported."""

        def start(partition: TopicIdPartition) -> Awaitable[None]:
            return self._persister.initialize(
                SharePartitionKey(plan.group_id, *partition),
                plan.state_epoch,
                plan.start_offsets[partition],
                since_epoch=plan.since_epochs.get(partition.topic_id),
            )

        done, failures = await self._each(plan.start_offsets, start)
        if plan.start_offsets:
            await self._shards.tell(StateInitialized(plan.group_id, done, frozenset(failures)), plan.group_id)
        return failures

    async def delete(
        self, group_id: str, plan: DeletePlan, *, with_group: bool = False
    ) -> tuple[bool, Failures]:
        """Deletes and reports; whether the group is gone, and what failed. Raises KafkaError."""

        def remove(partition: TopicIdPartition) -> Awaitable[None]:
            return self._persister.delete(SharePartitionKey(group_id, *partition), plan.state_epoch)

        done, failures = await self._each(plan.partitions, remove)
        gone = await self._shards.ask(
            StateDeleted(group_id, done, frozenset(failures), with_group), group_id, bool
        )
        return gone, failures

    async def _each(
        self, partitions: Iterable[TopicIdPartition], change: Callable[[TopicIdPartition], Awaitable[None]]
    ) -> tuple[frozenset[TopicIdPartition], Failures]:
        failures: dict[TopicIdPartition, KafkaError] = {}

        async def one(partition: TopicIdPartition) -> None:
            try:
                async with asyncio.timeout(self._timeout):
                    await change(partition)
            except TimeoutError:
                failures[partition] = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
            except KafkaError as error:
                failures[partition] = error

        asked = list(partitions)
        await asyncio.gather(*map(one, asked))
        return frozenset(asked) - failures.keys(), failures

    async def _initialize_and_log(self, plan: InitializeState) -> None:
        try:
            failures = await self.initialize(plan)
        except KafkaError as error:
            _logger.warning("group %s: initialised state was not noted: %s", plan.group_id, error)
            return
        for partition, failure in failures.items():
            _logger.warning("group %s: no state yet of %s: %s", plan.group_id, partition, failure)

    def _ended(self, group_id: str, task: asyncio.Task[None]) -> None:
        running = self._running[group_id]
        running.discard(task)
        if not running:
            del self._running[group_id]
