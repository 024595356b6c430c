"""The shards' logs as Kafka's topic __consumer_offsets: the committed offsets of consumer groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.catalog.names import INTERNAL_TOPIC_NAMES
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import OffsetRecord
from sharebroker_server.group_coordinator.core.records import Record
from sharebroker_server.group_coordinator.core.view import ClusterView
from sharebroker_server.group_coordinator.service.shards import Host
from sharebroker_server.group_coordinator.store.kafka_format import offset_commit
from sharebroker_server.shard_topic import reading
from sharebroker_server.shard_topic.batches import KafkaRecord

_CACHE_DELAY: Final = 60.0
"""Seconds after a commit in which an unknown topic may be missing from the metadata cache only."""


class OffsetsLog:
    """Raises what `sharebroker_server.shard_topic.reading` raises. `clock` returns epoch seconds."""

    def __init__(self, host: Host, view: ClusterView, clock: Callable[[], float]) -> None:
        self._host = host
        self._view = view
        self._clock = clock

    async def fetch(self, request: pb.FetchShareGroupStateRequest) -> pb.FetchShareGroupStateResponse:
        """Returns the commits of a shard from an offset on."""
        return await reading.fetch(self._host, self._format, request)

    async def find_offset(
        self, request: pb.FindShareGroupStateOffsetRequest
    ) -> pb.FindShareGroupStateOffsetResponse:
        """Returns the offset of a commit by time."""
        return await reading.find_offset(self._host, self._format, request)

    def _format(self, record: Record) -> KafkaRecord | None:
        if not isinstance(record, OffsetRecord):
            return None
        name = self._name(record)
        return None if name is None else offset_commit(record, name)

    def _name(self, record: OffsetRecord) -> str | None:
        """Returns the name of the record's topic; None if deleted, for its name may be another topic's now.

        Raises COORDINATOR_LOAD_IN_PROGRESS for a topic that is not in the metadata cache yet.
        """
        topic_id, committed = record.partition.topic_id, record.committed
        topic = self._view.topic_by_id(topic_id)
        if topic is not None:
            return topic.name
        if topic_id in INTERNAL_TOPIC_NAMES:
            return INTERNAL_TOPIC_NAMES[topic_id]
        if committed is not None and not self._view.is_deleted(topic_id):
            self._check_not_new(topic_id, committed.at_ms / 1000)
        return None

    def _check_not_new(self, topic_id: str, committed_at: float) -> None:
        if self._clock() - committed_at < _CACHE_DELAY:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"Topic {topic_id} is not known yet.")
