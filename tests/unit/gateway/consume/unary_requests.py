"""Requests of Acquire."""

from __future__ import annotations

from typing import Any

from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.records.batches import CODECS, BatchBuilder
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from tests.unit.gateway.fakes import Leader


def request(**fields: Any) -> pb.AcquireRequest:
    return pb.AcquireRequest(**{"group_id": "group", "topics": ["flights"]} | fields)


def one_record(request: Any) -> Any:
    """Partition 0 has two acquired offsets and one record."""
    response = Leader.all_is_well(request)
    if isinstance(request, leader.AcquireRecordsRequest):
        builder = BatchBuilder(CODECS["none"], 1000)
        builder.append(0, b"key", b"value")
        (part,) = [part for part in response.partitions if part.partition == 0]
        part.record_batches = builder.build()
        part.acquired.add(first_offset=0, last_offset=1, delivery_count=1, lock_token=7)
    return response
