"""Initialises and deletes share state at the share coordinator, and reports the outcome to the group."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, TopicIdPartition
from sharebroker_server.aio import Turns, doubling
from sharebroker_server.group_coordinator.core.share_groups import commands as c
from sharebroker_server.group_coordinator.service.shards import Host
from sharebroker_server.persister.port import Persister

_log = structlog.get_logger()

Failures = Mapping[TopicIdPartition, KafkaError]


T = TypeVar("T")

_PORTION: Final = 500
"""Changes that begin in one turn of the event loop."""
_REPEATS: Final = tuple(islice(doubling(0.25, 2.0), 4))
"""Seconds before each repetition of an initialisation that could not be reported."""


class ShareStates:
    """Changes share state; `timeout` bounds in seconds all attempts at the change of one partition."""

    def __init__(self, persister: Persister, host: Host, timeout: float) -> None:
        self._persister = persister
        self._host = host
        self._timeout = timeout
        self._running: dict[str, set[asyncio.Task[None]]] = {}
        self._turns = Turns()

    def begin(self, plan: c.InitializeState) -> None:
        """Starts an initialisation in the background; `wait` waits for its end."""
        task = asyncio.create_task(
            self._initialize_and_log(plan), name=f"initialise state of {plan.group_id}"
        )
        running = self._running.setdefault(plan.group_id, set())
        running.add(task)
        task.add_done_callback(lambda _: self._ended(plan.group_id, task))

    async def wait(self, group_id: str, timeout: float) -> bool:
        """Waits up to `timeout` seconds for the initialisations of a group; returns whether any ran."""
        running = self._running.get(group_id)
        if running:
            await asyncio.wait(running, timeout=timeout)
        return running is not None

    async def close(self) -> None:
        """Cancels what runs in the background; the next owner of the shard initialises again."""
        await end(task for running in self._running.values() for task in running)

    async def initialize(self, plan: c.InitializeState) -> Failures:
        """Initialises and reports; returns errors by partition. Raises KafkaError if it cannot report."""

        def start(partition: TopicIdPartition) -> Awaitable[None]:
            return self._persister.initialize(
                SharePartitionKey(plan.group_id, *partition),
                plan.state_epoch,
                plan.start_offsets[partition],
                since_epoch=plan.since_epochs.get(partition.topic_id),
            )

        done, failures = await self._each(plan.start_offsets, start)
        if plan.start_offsets:
            report = c.StateInitialized(plan.group_id, done, frozenset(failures))
            await self._host.of(plan.group_id).submit(report)
        return failures

    async def delete(
        self, group_id: str, plan: c.DeletePlan, *, with_group: bool = False
    ) -> tuple[bool, Failures]:
        """Deletes and reports; returns whether the group is deleted, and errors by partition.

        Raises KafkaError.
        """

        def remove(partition: TopicIdPartition) -> Awaitable[None]:
            return self._persister.delete(SharePartitionKey(group_id, *partition), plan.state_epoch)

        done, failures = await self._each(plan.partitions, remove)
        report = c.StateDeleted(group_id, done, frozenset(failures), with_group)
        return await self._host.request(group_id, report, bool), failures

    async def _each(
        self, partitions: Iterable[TopicIdPartition], change: Callable[[TopicIdPartition], Awaitable[None]]
    ) -> tuple[frozenset[TopicIdPartition], Failures]:
        failures: dict[TopicIdPartition, KafkaError] = {}

        async def attempt(partition: TopicIdPartition) -> None:
            try:
                async with asyncio.timeout(self._timeout):
                    await change(partition)
            except TimeoutError:
                failures[partition] = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
            except KafkaError as error:
                failures[partition] = error

        requested = list(partitions)
        async with asyncio.TaskGroup() as attempts:
            async for portion in self._turns.portions(requested, _PORTION):
                for partition in portion:
                    attempts.create_task(attempt(partition))
        return frozenset(requested) - failures.keys(), failures

    async def _initialize_and_log(self, plan: c.InitializeState) -> None:
        """Initialises; repeats while the lease of the group's shard is late and the shard stays here.

        Without a report the group waits for its retry interval, 30 seconds by default.
        """
        for pause in (*_REPEATS, None):
            try:
                self._host.of(plan.group_id)
                failures = await self.initialize(plan)
                break
            except KafkaError as error:
                if pause is None or error.code is not ErrorCode.NOT_COORDINATOR:
                    _log.warning(
                        "initialised share state not recorded", group=plan.group_id, error=str(error)
                    )
                    return
            await asyncio.sleep(pause)
        for partition, failure in failures.items():
            _log.warning(
                "share state not initialised",
                group=plan.group_id,
                topic_id=partition.topic_id,
                partition=partition.partition,
                error=str(failure),
            )

    def _ended(self, group_id: str, task: asyncio.Task[None]) -> None:
        running = self._running[group_id]
        running.discard(task)
        if not running:
            del self._running[group_id]


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Returns or raises what `work` does.

    If the caller is cancelled, the work continues and its error is ignored.
    """
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)
