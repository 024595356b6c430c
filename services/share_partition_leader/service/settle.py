"""One settle call: what a member says of records it was given, answered when durable."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from libs.clock import now
from libs.rpc.in_band import wire
from libs.share_calls.messages import add_acquired
from libs.share_calls.values import AckBatch
from services.share_partition_leader.core.settle import LeftReason
from services.share_partition_leader.service import holders
from services.share_partition_leader.service.delivery import Partitions
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


async def settle_records(
    partitions: Partitions, request: pb.SettleRecordsRequest, timeout: float
) -> list[Answer]:
    """The answer of each partition, in the order of the request."""
    settlement = _Settlement(partitions, request, timeout)
    answers = [settlement.at_once(asked) for asked in request.partitions]
    waiting = [index for index, answer in enumerate(answers) if answer is None]
    found = await asyncio.gather(*(settlement.answer(request.partitions[index]) for index in waiting))
    for index, answer in zip(waiting, found, strict=True):
        answers[index] = answer
    return [answer for answer in answers if answer is not None]


class _Settlement:
    def __init__(self, partitions: Partitions, request: pb.SettleRecordsRequest, timeout: float) -> None:
        self._partitions = partitions
        self._group_id = request.group_id
        self._holder = holders.of_member(request.member_id)
        self._renews = request.renew_held
        self._timeout = timeout

    def at_once(self, asked: Asked) -> Answer | None:
        """The answer of a partition that is there and of which nothing is said: of most, most of the time."""
        loaded = self._partitions.loaded(self._group_id, asked.topic_id, asked.partition)
        if loaded is None or asked.ranges:
            return None
        answer = Answer(topic_id=asked.topic_id, partition=asked.partition)
        self._tell(loaded, answer)
        return answer

    async def answer(self, asked: Asked) -> Answer:
        """What became of one partition's ranges; what raises stands in the answer."""
        answer = Answer(topic_id=asked.topic_id, partition=asked.partition)
        try:
            await self._settle(asked, answer)
        except TimeoutError:
            answer.error_code = wire(ErrorCode.REQUEST_TIMED_OUT)
            answer.error_message = f"Not durable within {self._timeout} s."
        except KafkaError as error:
            answer.error_code, answer.error_message = wire(error.code), error.message
        return answer

    async def _settle(self, asked: Asked, answer: Answer) -> None:
        share_partition = await self._partitions.share_partition(
            self._group_id, asked.topic_id, asked.partition
        )
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: KafkaError | None) -> None:
            if durable.done():
                return
            if error is None:
                durable.set_result(None)
            else:
                durable.set_exception(error)

        if asked.ranges:
            left = share_partition.settle(self._holder, _batches(asked.ranges), done)
            answer.left.extend(_left(one.first, one.last, one.reason) for one in left)
            async with asyncio.timeout(self._timeout):
                await durable
        self._tell(share_partition, answer)

    def _tell(self, share_partition: ShareGroupPartition, answer: Answer) -> None:
        if self._renews:
            share_partition.core.renew_all(self._holder, now())
        add_acquired(answer.held, share_partition.core.held_by(self._holder))


def _batches(ranges: Iterable[pb.SettleRecordsRequest.Range]) -> list[AckBatch]:
    return [AckBatch(one.first_offset, one.last_offset, (one.type,)) for one in ranges]


def _left(first: int, last: int, reason: LeftReason) -> delivery.LeftRange:
    return delivery.LeftRange(first_offset=first, last_offset=last, reason=_REASONS[reason])
