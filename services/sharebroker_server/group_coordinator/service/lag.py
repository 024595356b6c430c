"""Start offsets and lag of groups: what the share coordinator knows, counted against the logs' ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.model import SharePartitionKey, TopicIdPartition
from sharebroker_server.group_coordinator.clients.log_ends import LogEnd, LogEnds
from sharebroker_server.group_coordinator.core.commands import ListOffsetPartitions
from sharebroker_server.group_coordinator.core.model import Assignment, partitions_of
from sharebroker_server.group_coordinator.core.view import ClusterView
from sharebroker_server.group_coordinator.service.shards import Shards
from sharebroker_server.persister.port import Persister, StateSummary
from sharebroker_server.rpc.partition_errors import refusal, wire

_Partition = pb.DescribeShareGroupOffsetsResponse.Partition
_Topic = pb.DescribeShareGroupOffsetsResponse.Topic
UNKNOWN = -1


class Fresh(NamedTuple):
    """What a group has not begun of a partition; `oldest` is when the first was made (ms), 0: not known."""

    topic: str
    partition: int
    lag: int
    oldest: int


class Lags:
    """Describes offsets of groups."""

    def __init__(self, shards: Shards, view: ClusterView, persister: Persister, ends: LogEnds) -> None:
        self._shards = shards
        self._view = view
        self._persister = persister
        self._ends = ends

    async def describe(
        self, asked: pb.DescribeShareGroupOffsetsRequest.Group
    ) -> pb.DescribeShareGroupOffsetsResponse.Group:
        """The group's partitions, or those asked for; a group that is not there has no data and no error."""
        try:
            known = await self._shards.ask(ListOffsetPartitions(asked.group_id), asked.group_id, dict)
            topics = self._all(known) if asked.all_topics else _asked(asked)
            found = await self._partitions(asked.group_id, known, topics)
        except KafkaError as error:
            return pb.DescribeShareGroupOffsetsResponse.Group(group_id=asked.group_id, **refusal(error))
        return pb.DescribeShareGroupOffsetsResponse.Group(group_id=asked.group_id, topics=found)

    async def fresh(self, described: pb.DescribeShareGroupOffsetsResponse.Group) -> list[Fresh]:
        """What a group has not begun, where it begins with the earliest.

        Nothing is stored of it until something is acknowledged; where others will begin is not decided yet.
        """
        if self._view.group_config(described.group_id).offset_reset.strategy != "earliest":
            return []
        places = {
            TopicIdPartition(topic.topic_id, row.partition): topic.topic_name
            for topic in described.topics
            for row in topic.partitions
            if row.start_offset == UNKNOWN and not row.error_code
        }
        found = await self._ends.starts(places)
        starts = {place: start for place, start in found.items() if isinstance(start, int)}
        ends = await self._ends.of(starts)
        return [
            Fresh(places[place], place.partition, end.offset - start, end.made_at)
            for place, start in starts.items()
            if isinstance(end := ends[place], LogEnd)
        ]

    def _all(self, known: Assignment) -> dict[str, list[int]]:
        named = ((self._view.topic_by_id(topic_id), some) for topic_id, some in known.items())
        return {topic.name: sorted(some) for topic, some in named if topic is not None}

    async def _partitions(
        self, group_id: str, known: Assignment, topics: Mapping[str, Sequence[int]]
    ) -> list[_Topic]:
        ids = {name: topic.topic_id for name in topics if (topic := self._view.topic(name))}
        wanted = [
            TopicIdPartition(ids[name], partition)
            for name, some in topics.items()
            if name in ids
            for partition in some
        ]
        rows = await self._rows(group_id, sorted({*wanted} & {*partitions_of(known)}))
        return [
            _Topic(
                topic_name=name,
                topic_id=ids.get(name, ""),
                partitions=[rows.get(TopicIdPartition(ids.get(name, ""), p)) or _unknown(p) for p in some],
            )
            for name, some in sorted(topics.items())
        ]

    async def _rows(
        self, group_id: str, partitions: list[TopicIdPartition]
    ) -> dict[TopicIdPartition, _Partition]:
        outcomes = await asyncio.gather(*(self._summary(group_id, some) for some in partitions))
        found = dict(zip(partitions, outcomes, strict=True))
        # Only where a start offset and a count are known is there a lag to tell.
        ends = await self._ends.of(
            {some: known.start_offset for some, summary in found.items() if (known := _countable(summary))}
        )
        return {some: _row(some.partition, summary, ends.get(some)) for some, summary in found.items()}

    async def _summary(self, group_id: str, partition: TopicIdPartition) -> StateSummary | KafkaError:
        try:
            return await self._persister.read_summary(SharePartitionKey(group_id, *partition))
        except KafkaError as error:
            return error


def _asked(asked: pb.DescribeShareGroupOffsetsRequest.Group) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic in asked.topics:
        topics.setdefault(topic.topic_name, []).extend(topic.partitions)
    return topics


def _countable(summary: StateSummary | KafkaError) -> StateSummary | None:
    if isinstance(summary, KafkaError) or UNKNOWN in (summary.start_offset, summary.delivery_complete_count):
        return None
    return summary


def _unknown(partition: int) -> _Partition:
    return _Partition(partition=partition, start_offset=UNKNOWN, lag=UNKNOWN)


def _row(partition: int, summary: StateSummary | KafkaError, end: LogEnd | KafkaError | None) -> _Partition:
    row = _unknown(partition)
    for outcome in (summary, end):
        if isinstance(outcome, KafkaError):
            row.error_code, row.error_message = wire(outcome.code), outcome.message
            return row
    if isinstance(summary, StateSummary):
        row.start_offset, row.leader_epoch = summary.start_offset, summary.leader_epoch
        if isinstance(end, LogEnd):
            row.lag = end.offset - summary.start_offset - summary.delivery_complete_count
            row.oldest_timestamp = end.made_at if row.lag else 0
    return row
