"""Reconciles the records of a planned batch with the states that its commit demands."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Set
from functools import partial

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AcquiredRange
from sharebroker_server.leader_calls.values import Left, ReconcileCall, ReconcileResult
from sharebroker_server.share_partition_leader.leadership import Leadership, LedPartition
from sharebroker_server.share_partition_leader.share_partition.share_group_partition import (
    ShareGroupPartition,
    member_holder,
)


async def reconcile(partitions: Leadership, call: ReconcileCall, timeout: float) -> list[ReconcileResult]:
    """Results of the call's partitions in order, then those of other partitions with held locks."""
    reconciliation = _Reconciliation(partitions, call)
    await reconciliation.run(timeout)
    return [*reconciliation.results(), *reconciliation.other_held()]


class _Reconciliation:
    """One call: applies all loaded share-partitions in one turn of the loop, and waits for them together."""

    def __init__(self, partitions: Leadership, call: ReconcileCall) -> None:
        self._partitions = partitions
        self._call = call
        self._holder = member_holder(call.member_id)
        self._found: dict[int, ShareGroupPartition] = {}
        self._unchanged: dict[int, Iterable[Left]] = {}
        self._failed: dict[int, KafkaError] = {}
        self._pending: set[int] = set()
        self._durable = asyncio.Event()

    async def run(self, timeout: float) -> None:
        """Applies the call and waits until it is durable; parts that are late get REQUEST_TIMED_OUT."""
        missing = []
        for index, part in enumerate(self._call.parts):
            loaded = self._partitions.loaded(self._call.group_id, part.topic_id, part.partition)
            if loaded is None:
                missing.append(index)
            else:
                self._apply(index, loaded)
        if missing:
            await asyncio.gather(*map(self._load_and_apply, missing))
        if self._pending:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._durable.wait()
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Not durable within {timeout} s.")
        for index in list(self._pending):
            self._complete(index, late)

    def results(self) -> Iterator[ReconcileResult]:
        """The result of each partition of the call."""
        for index, (topic_id, partition, *_) in enumerate(self._call.parts):
            error = self._failed.get(index)
            if error is None:
                held = self._held(self._found[index])
                unchanged = tuple(self._unchanged.get(index, ()))
                yield ReconcileResult(topic_id, partition, left=unchanged, held=held)
            else:
                yield ReconcileResult(topic_id, partition, error.code, error.message)

    def other_held(self) -> Iterator[ReconcileResult]:
        """The locks that the member holds in other partitions of the requested topics."""
        call = self._call
        if not call.topic_ids:
            return
        named = {(part.topic_id, part.partition) for part in call.parts}
        for share_partition in _loaded(self._partitions.partitions(), call.group_id, {*call.topic_ids}):
            part = (share_partition.topic_id, share_partition.partition)
            if not share_partition.core.holds(self._holder) or part in named:
                continue
            if self._partitions.loaded(call.group_id, *part) is share_partition:
                yield ReconcileResult(*part, held=self._held(share_partition))
            else:
                yield ReconcileResult(*part, ErrorCode.NOT_LEADER_OR_FOLLOWER, "The lease may have expired.")

    async def _load_and_apply(self, index: int) -> None:
        part = self._call.parts[index]
        try:
            share_partition = await self._partitions.share_partition(
                self._call.group_id, part.topic_id, part.partition
            )
        except KafkaError as error:
            self._failed[index] = error
        else:
            self._apply(index, share_partition)

    def _apply(self, index: int, share_partition: ShareGroupPartition) -> None:
        batches = self._call.parts[index].batches
        self._found[index] = share_partition
        if not batches:
            return
        self._pending.add(index)
        try:
            unchanged = share_partition.reconcile(self._holder, batches, partial(self._complete, index))
        except KafkaError as error:
            self._complete(index, error)
        else:
            if unchanged:
                self._unchanged[index] = unchanged

    def _complete(self, index: int, error: KafkaError | None) -> None:
        """A partition is durable, or failed; the first outcome counts."""
        if index not in self._pending:
            return
        self._pending.remove(index)
        if error is not None:
            self._failed[index] = error
        if not self._pending:
            self._durable.set()

    def _held(self, share_partition: ShareGroupPartition) -> list[AcquiredRange]:
        if self._call.renew_held:
            share_partition.renew_all(self._holder)
        return share_partition.core.held_by(self._holder)


def _loaded(led: Iterable[LedPartition], group_id: str, topic_ids: Set[str]) -> Iterator[ShareGroupPartition]:
    """A group's loaded share-partitions of topics, without a check of their leases."""
    for partition in led:
        if partition.topic.topic_id in topic_ids:
            share_partition = partition.ready.get(group_id)
            if share_partition is not None:
                yield share_partition
