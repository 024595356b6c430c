"""Start and end offsets of topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_spark.client import Client
from sharebroker_spark.core.offsets import Partition

_LATEST: Final = -1
_EARLIEST: Final = -2
_COMMITTED: Final = 1


def log_spans(client: Client, topics: Iterable[str]) -> dict[Partition, tuple[int, int]]:
    """Returns the first offset and the last stable offset of each partition. Raises KafkaError."""
    names: dict[str, str] = {}
    parts = []
    for topic in client.call(client.admin.Metadata, admin.MetadataRequest(topics=topics)).topics:
        if topic.error_code:
            raise KafkaError(ErrorCode(topic.error_code), f"Topic '{topic.name}' does not exist.")
        names[topic.topic_id] = topic.name
        parts += [
            (topic.topic_id, partition_metadata.partition_index) for partition_metadata in topic.partitions
        ]
    starts = _offsets(client, parts, _EARLIEST)
    ends = _offsets(client, parts, _LATEST)
    return {(names[part[0]], part[1]): (starts[part], ends[part]) for part in parts}


def _offsets(client: Client, parts: list[tuple[str, int]], timestamp: int) -> dict[tuple[str, int], int]:
    request = leader.ListOffsetsRequest(
        partitions=[
            leader.ListOffsetsRequest.Partition(topic_id=topic_id, partition=partition, timestamp=timestamp)
            for topic_id, partition in parts
        ],
        isolation_level=_COMMITTED,
    )
    results = client.call(client.admin.ListOffsets, request).partitions
    for result in results:
        if result.error_code:
            raise KafkaError(ErrorCode(result.error_code), result.error_message)
    return {(result.topic_id, result.partition): result.offset for result in results}
