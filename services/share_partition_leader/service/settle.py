"""One settle call: what a member says of records it was given, answered when durable."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Set
from functools import partial
from typing import Final, Protocol

from libs.clock import now
from libs.rpc.in_band import wire
from libs.share_calls.messages import add_acquired
from libs.share_calls.values import AckBatch
from services.share_partition_leader.core.settle import LeftReason
from services.share_partition_leader.service import holders
from services.share_partition_leader.service.delivery import Partitions
from services.share_partition_leader.service.leadership import LedPartition
from services.share_partition_leader.service.share_group_partition import ShareGroupPartition
from sharebroker.delivery.v1 import delivery_pb2 as delivery
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.share_partition_leader.v1 import share_partition_leader_pb2 as pb

Asked = pb.SettleRecordsRequest.Partition
Answer = pb.SettleRecordsResponse.Partition

_REASONS: Final = {
    LeftReason.FINISHED: delivery.LEFT_REASON_FINISHED,
    LeftReason.TAKEN: delivery.LEFT_REASON_TAKEN,
    LeftReason.UNDER_WAY: delivery.LEFT_REASON_UNDER_WAY,
    LeftReason.PAST_END: delivery.LEFT_REASON_PAST_END,
}


class Led(Partitions, Protocol):
    """What this process leads."""

    def partitions(self) -> list[LedPartition]:
        """Every partition."""


async def settle_records(partitions: Led, request: pb.SettleRecordsRequest, timeout: float) -> list[Answer]:
    """The answer of each partition, in the order of the request, and where else something is held."""
    settlement = _Settlement(partitions, request)
    await settlement.run(timeout)
    return [*settlement.answers, *settlement.rest()]


class _Settlement:
    """One call: what is loaded is settled in one turn of the loop, and all of it waited for together."""

    def __init__(self, partitions: Led, request: pb.SettleRecordsRequest) -> None:
        self._partitions = partitions
        self._request = request
        self._holder = holders.of_member(request.member_id)
        self._settled: list[tuple[int, ShareGroupPartition]] = []
        self._waits: set[int] = set()
        self._durable = asyncio.Event()
        self.answers = [
            Answer(topic_id=asked.topic_id, partition=asked.partition) for asked in request.partitions
        ]

    async def run(self, timeout: float) -> None:
        """Settle what is named, and wait until that is durable."""
        missing = []
        for index, asked in enumerate(self._request.partitions):
            loaded = self._partitions.loaded(self._request.group_id, asked.topic_id, asked.partition)
            if loaded is None:
                missing.append(index)
            else:
                self._settle(index, loaded)
        await asyncio.gather(*map(self._load, missing))
        if self._waits:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._durable.wait()
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Not durable within {timeout} s.")
        for index in list(self._waits):
            self._done(index, late)
        for index, share_partition in self._settled:
            if not self.answers[index].error_code:
                self._tell(share_partition, self.answers[index])

    def rest(self) -> Iterator[Answer]:
        """What the member holds in other partitions of the topics that are asked."""
        request = self._request
        named = {(asked.topic_id, asked.partition) for asked in request.partitions}
        for one in _loaded(self._partitions.partitions(), request.group_id, {*request.topic_ids}):
            part = (one.topic_id, one.partition)
            if not one.core.holds(self._holder) or part in named:
                continue
            answer = Answer(topic_id=one.topic_id, partition=one.partition)
            if self._partitions.loaded(request.group_id, *part) is one:
                self._tell(one, answer)
            else:
                _refuse(answer, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The lease may have run out."))
            yield answer

    async def _load(self, index: int) -> None:
        asked = self._request.partitions[index]
        try:
            found = await self._partitions.share_partition(
                self._request.group_id, asked.topic_id, asked.partition
            )
        except KafkaError as error:
            _refuse(self.answers[index], error)
        else:
            self._settle(index, found)

    def _settle(self, index: int, share_partition: ShareGroupPartition) -> None:
        asked, answer = self._request.partitions[index], self.answers[index]
        self._settled.append((index, share_partition))
        if not asked.ranges:
            return
        self._waits.add(index)
        try:
            left = share_partition.settle(self._holder, _batches(asked.ranges), partial(self._done, index))
            answer.left.extend(_left(one.first, one.last, one.reason) for one in left)
        except KafkaError as error:
            self._done(index, error)

    def _done(self, index: int, error: KafkaError | None) -> None:
        """What was said of a partition is durable, or why it is not; the first word counts."""
        if index not in self._waits:
            return
        self._waits.remove(index)
        if error is not None:
            _refuse(self.answers[index], error)
        if not self._waits:
            self._durable.set()

    def _tell(self, share_partition: ShareGroupPartition, answer: Answer) -> None:
        if self._request.renew_held:
            share_partition.core.renew_all(self._holder, now())
        add_acquired(answer.held, share_partition.core.held_by(self._holder))


def _loaded(led: Iterable[LedPartition], group_id: str, topic_ids: Set[str]) -> Iterator[ShareGroupPartition]:
    """A group's share-partitions of topics, as far as they are loaded; leases are not looked at."""
    for partition in led:
        if partition.topic.topic_id in topic_ids:
            found = partition.of_group(group_id)
            if found is not None:
                yield found


def _refuse(answer: Answer, error: KafkaError) -> None:
    answer.error_code, answer.error_message = wire(error.code), error.message


def _batches(ranges: Iterable[pb.SettleRecordsRequest.Range]) -> list[AckBatch]:
    return [AckBatch(one.first_offset, one.last_offset, (one.type,)) for one in ranges]


def _left(first: int, last: int, reason: LeftReason) -> delivery.LeftRange:
    return delivery.LeftRange(first_offset=first, last_offset=last, reason=_REASONS[reason])
