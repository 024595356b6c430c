"""One settle call: what a member says of records it was given, answered when durable."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Set
from functools import partial
from typing import Protocol

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AcquiredRange
from sharebroker_server.share_calls.values import Left, SettleCall, Settlement
from sharebroker_server.share_partition_leader.leadership.led_partition import LedPartition
from sharebroker_server.share_partition_leader.partition import lock_holders
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition
from sharebroker_server.share_partition_leader.requests.deliver_stream import Partitions


class Led(Partitions, Protocol):
    """What this process leads."""

    def partitions(self) -> list[LedPartition]:
        """Every partition."""


async def settle(partitions: Led, call: SettleCall, timeout: float) -> list[Settlement]:
    """What became of each partition, in the order of the call, and where else something is held."""
    settling = _Settling(partitions, call)
    await settling.run(timeout)
    return [*settling.answers(), *settling.rest()]


class _Settling:
    """One call: what is loaded is settled in one turn of the loop, and all of it waited for together."""

    def __init__(self, partitions: Led, call: SettleCall) -> None:
        self._partitions = partitions
        self._call = call
        self._holder = lock_holders.of_member(call.member_id)
        self._settled: dict[int, ShareGroupPartition] = {}
        self._left: dict[int, Iterable[Left]] = {}
        self._failed: dict[int, KafkaError] = {}
        self._waits: set[int] = set()
        self._durable = asyncio.Event()

    async def run(self, timeout: float) -> None:
        """Settle what is named, and wait until that is durable."""
        missing = []
        for index, (topic_id, partition, _) in enumerate(self._call.parts):
            loaded = self._partitions.loaded(self._call.group_id, topic_id, partition)
            if loaded is None:
                missing.append(index)
            else:
                self._settle(index, loaded)
        if missing:
            await asyncio.gather(*map(self._load, missing))
        if self._waits:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._durable.wait()
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Not durable within {timeout} s.")
        for index in list(self._waits):
            self._done(index, late)

    def answers(self) -> Iterator[Settlement]:
        """What became of each partition that is named."""
        for index, (topic_id, partition, _) in enumerate(self._call.parts):
            error = self._failed.get(index)
            if error is None:
                held = self._held(self._settled[index])
                left = tuple(self._left.get(index, ()))
                yield Settlement(topic_id, partition, left=left, held=held)
            else:
                yield Settlement(topic_id, partition, error.code, error.message)

    def rest(self) -> Iterator[Settlement]:
        """What the member holds in other partitions of the topics that are asked."""
        call = self._call
        if not call.topic_ids:
            return
        named = {(topic_id, partition) for topic_id, partition, _ in call.parts}
        for one in _loaded(self._partitions.partitions(), call.group_id, {*call.topic_ids}):
            part = (one.topic_id, one.partition)
            if not one.core.holds(self._holder) or part in named:
                continue
            if self._partitions.loaded(call.group_id, *part) is one:
                yield Settlement(*part, held=self._held(one))
            else:
                yield Settlement(*part, ErrorCode.NOT_LEADER_OR_FOLLOWER, "The lease may have run out.")

    async def _load(self, index: int) -> None:
        topic_id, partition, _ = self._call.parts[index]
        try:
            found = await self._partitions.share_partition(self._call.group_id, topic_id, partition)
        except KafkaError as error:
            self._failed[index] = error
        else:
            self._settle(index, found)

    def _settle(self, index: int, share_partition: ShareGroupPartition) -> None:
        batches = self._call.parts[index].batches
        self._settled[index] = share_partition
        if not batches:
            return
        self._waits.add(index)
        try:
            left = share_partition.reconcile(self._holder, batches, partial(self._done, index))
        except KafkaError as error:
            self._done(index, error)
        else:
            if left:
                self._left[index] = left

    def _done(self, index: int, error: KafkaError | None) -> None:
        """What was said of a partition is durable, or why it is not; the first word counts."""
        if index not in self._waits:
            return
        self._waits.remove(index)
        if error is not None:
            self._failed[index] = error
        if not self._waits:
            self._durable.set()

    def _held(self, share_partition: ShareGroupPartition) -> list[AcquiredRange]:
        if self._call.renew_held:
            share_partition.renew_all(self._holder)
        return share_partition.core.held_by(self._holder)


def _loaded(led: Iterable[LedPartition], group_id: str, topic_ids: Set[str]) -> Iterator[ShareGroupPartition]:
    """A group's share-partitions of topics, as far as they are loaded; leases are not looked at."""
    for partition in led:
        if partition.topic.topic_id in topic_ids:
            found = partition.ready.get(group_id)
            if found is not None:
                yield found
