"""RPCs that read a shard of `__consumer_offsets` in Kafka's format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sharebroker_protocol.group_coordinator.v1.group_coordinator_pb2_grpc import (
    GroupCoordinatorServiceServicer,
)
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as log_pb
from sharebroker_server.group_coordinator.core.metadata_image import MetadataImage
from sharebroker_server.group_coordinator.service.shards import Host
from sharebroker_server.group_coordinator.store.kafka_format import OffsetsTopic
from sharebroker_server.shard_topic import reading


class GroupLogRpcs(GroupCoordinatorServiceServicer):
    """The part of the service that is about the stored records."""

    def __init__(self, host: Host, view: MetadataImage, clock: Callable[[], float]) -> None:
        self._host = host
        self._offsets_topic = OffsetsTopic(view, clock)

    async def FetchGroupLog(
        self, request: log_pb.FetchShareGroupStateRequest, _context: Any
    ) -> log_pb.FetchShareGroupStateResponse:
        """Returns commits of a shard in Kafka's format; raises, among others, OFFSET_OUT_OF_RANGE."""
        return await reading.fetch(self._host, self._offsets_topic.record, request)

    async def FindGroupLogOffset(
        self, request: log_pb.FindShareGroupStateOffsetRequest, _context: Any
    ) -> log_pb.FindShareGroupStateOffsetResponse:
        """Returns an offset of a shard's log by time; raises as FetchGroupLog does."""
        return await reading.find_offset(self._host, self._offsets_topic.record, request)
