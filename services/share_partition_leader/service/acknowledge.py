"""One AcknowledgeRecords call: all or nothing for each partition, answered when durable."""

from __future__ import annotations

import asyncio

from libs.rpc.in_band import wire
from services.share_partition_leader.core.values import AckBatch
from services.share_partition_leader.service import holders
from services.share_partition_leader.service.gathering import RENEW
from services.share_partition_leader.service.leadership import Leadership
from services.share_partition_leader.service.share_group_partition import ShareGroupPartition
from services.share_partition_leader.service.state import NoStateError
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.share_partition_leader.v1 import share_partition_leader_pb2 as pb


async def acknowledge(
    leadership: Leadership, request: pb.AcknowledgeRecordsRequest
) -> list[pb.AcknowledgeRecordsResponse.Partition]:
    """The result of each partition, in the order of the request."""
    return list(
        await asyncio.gather(*(_of_partition(leadership, request, asked) for asked in request.partitions))
    )


async def _of_partition(
    leadership: Leadership,
    request: pb.AcknowledgeRecordsRequest,
    asked: pb.AcknowledgeRecordsRequest.Partition,
) -> pb.AcknowledgeRecordsResponse.Partition:
    answer = pb.AcknowledgeRecordsResponse.Partition(topic_id=asked.topic_id, partition=asked.partition)
    try:
        await _apply(await _loaded(leadership, request.group_id, asked), request, asked)
    except KafkaError as error:
        answer.error_code = wire(error.code)
        answer.error_message = error.message
    return answer


async def _loaded(
    leadership: Leadership, group_id: str, asked: pb.AcknowledgeRecordsRequest.Partition
) -> ShareGroupPartition:
    try:
        return await leadership.share_partition(group_id, asked.topic_id, asked.partition)
    except NoStateError as error:  # a fetch may wait for it; what was never acquired never will be
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, error.message) from error


async def _apply(
    share_partition: ShareGroupPartition,
    request: pb.AcknowledgeRecordsRequest,
    asked: pb.AcknowledgeRecordsRequest.Partition,
) -> None:
    batches = [
        AckBatch(
            batch.first_offset, batch.last_offset, tuple(batch.acknowledge_types), batch.lock_token or None
        )
        for batch in asked.batches
    ]
    if not request.renew_allowed and any(RENEW in batch.types for batch in batches):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Renewing was not announced by the request.")
    answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: KafkaError | None) -> None:
        if answered.done():
            return
        if error is None:
            answered.set_result(None)
        else:
            answered.set_exception(error)

    share_partition.acknowledge(holders.of_member(request.member_id), batches, done, asked.delay_ms / 1000)
    await answered
