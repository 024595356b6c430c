"""Requests of producers, and a leader that appends."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.rpc_status import from_rpc_error
from tests.unit.gateway.fakes import Leader


def records(*some: tuple[bytes | None, str]) -> list[pb.PublishRecord]:
    return [pb.PublishRecord(key=key, text=text) for key, text in some]


def produced(index: int, data: bytes = b"batch", **topic: str) -> pb.ProduceRequest:
    part = pb.ProduceRequest.PartitionData(index=index, records=data)
    return pb.ProduceRequest(topic_data=[pb.ProduceRequest.TopicData(partition_data=[part], **topic)])


def appending(request: Any) -> Any:
    response = Leader.all_is_well(request)
    for part in response.partitions:
        part.base_offset = 100
    return response


async def refused(call: Any) -> KafkaError:
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await call
    return from_rpc_error(failure.value)
