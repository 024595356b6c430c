"""Requests of share sessions, and readers of their responses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc
import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.rpc_status import from_rpc_error
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.core.share_sessions import SessionKey
from tests.unit.gateway.fakes import TOPIC, Leader

ACCEPT, RENEW = 1, 4


ME = SessionKey("group", "me")


Batch = tuple[int, int, list[int]]


def fetch(epoch: int, *partitions: int, acks: dict[int, list[Batch]] | None = None, **more: Any) -> Any:
    topic = pb.ShareFetchRequest.FetchTopic(
        topic_id=more.pop("topic_id", TOPIC.topic_id),
        partitions=[
            pb.ShareFetchRequest.FetchPartition(
                partition_index=index, acknowledgement_batches=batches((acks or {}).get(index, []))
            )
            for index in partitions
        ],
    )
    fields: dict[str, Any] = {
        "group_id": "group",
        "member_id": "me",
        "max_records": 500,
        "min_bytes": 1,
    } | more
    return pb.ShareFetchRequest(share_session_epoch=epoch, topics=[topic] if partitions else [], **fields)


def acknowledge(epoch: int, acks: dict[int, list[Batch]], **more: Any) -> pb.ShareAcknowledgeRequest:
    parts = [
        pb.ShareAcknowledgeRequest.AcknowledgePartition(
            partition_index=index, acknowledgement_batches=batches(some)
        )
        for index, some in acks.items()
    ]
    topic = pb.ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=TOPIC.topic_id, partitions=parts)
    return pb.ShareAcknowledgeRequest(
        group_id="group", member_id="me", share_session_epoch=epoch, topics=[topic], **more
    )


def batches(some: Iterable[Batch]) -> list[pb.AcknowledgementBatch]:
    return [
        pb.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
        for first, last, types in some
    ]


def answered(response: Any) -> dict[int, Any]:
    return {part.partition_index: part for topic in response.responses for part in topic.partitions}


def records_of(*partitions: int) -> Any:
    """Returns responses of a leader with ten records in each of these partitions."""

    def answer(request: Any) -> Any:
        response = Leader.all_is_well(request)
        if isinstance(request, leader.AcquireRecordsRequest):
            for part in response.partitions:
                if part.partition in partitions:
                    part.record_batches = b"batch"
                    part.acquired.add(first_offset=0, last_offset=9, delivery_count=1)
        return response

    return answer


async def refused(call: Any) -> KafkaError:
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await call
    return from_rpc_error(failure.value)
