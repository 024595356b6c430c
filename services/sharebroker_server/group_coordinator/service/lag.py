"""Start offsets and lag of share groups: persisted start offsets compared with the log end offsets.

The records of the lag are ready, locked, waiting or archiving. The share coordinator counts those that wait
or archive as stored, because a leader unloads a share-partition without locks, whatever waits in it. The
leader counts scheduled records, whose times are in the log, and the locks: it keeps a share-partition with
locks in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.model import SharePartitionKey, TopicIdPartition
from sharebroker_server.aio import Turns
from sharebroker_server.group_coordinator.clients.log_ends import LogEnd, LogEnds
from sharebroker_server.group_coordinator.core.metadata_image import MetadataImage
from sharebroker_server.group_coordinator.core.share_groups.commands import ListOffsetPartitions
from sharebroker_server.group_coordinator.core.share_groups.group import Assignment
from sharebroker_server.group_coordinator.service.shards import Host
from sharebroker_server.persister.port import Persister, StateSummary
from sharebroker_server.rpc.errors import refusal, wire

_Partition = pb.DescribeShareGroupOffsetsResponse.Partition
_Topic = pb.DescribeShareGroupOffsetsResponse.Topic
UNKNOWN = -1

_PORTION: Final = 500
"""Partitions whose offsets are requested at once."""


class UnreadLag(NamedTuple):
    """The lag of a partition whose start offset is not stored yet.

    `oldest` is the time of its first record (ms) or 0. `locked` of its records are locked, `waiting` ones
    scheduled, and the others ready.
    """

    topic: str
    partition: int
    lag: int
    oldest: int
    locked: int
    waiting: int


class Lags:
    """Computes the offsets and the lag of groups."""

    def __init__(self, host: Host, view: MetadataImage, persister: Persister, ends: LogEnds) -> None:
        self._host = host
        self._view = view
        self._persister = persister
        self._ends = ends
        self._turns = Turns()

    async def describe(
        self, request: pb.DescribeShareGroupOffsetsRequest.Group
    ) -> pb.DescribeShareGroupOffsetsResponse.Group:
        """Returns the requested partitions of a group, or all; an unknown group has no data and no error."""
        try:
            known = await self._host.request(request.group_id, ListOffsetPartitions(request.group_id), dict)
            topics = self._all(known) if request.all_topics else _requested(request)
            found = await self._partitions(request.group_id, known, topics)
        except KafkaError as error:
            return pb.DescribeShareGroupOffsetsResponse.Group(group_id=request.group_id, **refusal(error))
        return pb.DescribeShareGroupOffsetsResponse.Group(group_id=request.group_id, topics=found)

    async def unread(self, described: pb.DescribeShareGroupOffsetsResponse.Group) -> list[UnreadLag]:
        """Returns the lag of unread partitions of a group that starts with the earliest record.

        A partition has no start offset until a record of it is acknowledged. For groups that start elsewhere
        the start offset is not decided yet.
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
        ends = await self._ends.of(described.group_id, starts)
        return [
            _unread(places[place], place.partition, start, end)
            for place, start in starts.items()
            if isinstance(end := ends[place], LogEnd)
        ]

    def _all(self, known: Assignment) -> dict[str, list[int]]:
        named = ((self._view.topic_by_id(topic_id), numbers) for topic_id, numbers in known.items())
        return {topic.name: sorted(numbers) for topic, numbers in named if topic is not None}

    async def _partitions(
        self, group_id: str, known: Assignment, topics: Mapping[str, Sequence[int]]
    ) -> list[_Topic]:
        ids = {name: topic.topic_id for name in topics if (topic := self._view.topic(name))}
        found = {name: _Topic(topic_name=name, topic_id=ids.get(name, "")) for name in sorted(topics)}
        requested = ((name, TopicIdPartition(ids.get(name, ""), p)) for name in found for p in topics[name])
        async for portion in self._turns.portions(requested, _PORTION):
            keys = dict.fromkeys(key for _, key in portion if key.partition in known.get(key.topic_id, ()))
            rows = await self._rows(group_id, [*keys])
            for name, key in portion:
                found[name].partitions.append(rows.get(key) or _unknown(key.partition))
        return [*found.values()]

    async def _rows(
        self, group_id: str, partitions: list[TopicIdPartition]
    ) -> dict[TopicIdPartition, _Partition]:
        outcomes = await asyncio.gather(*(self._summary(group_id, key) for key in partitions))
        found = dict(zip(partitions, outcomes, strict=True))
        # The lag needs a start offset and a count of completed deliveries.
        starts = {
            key: known.start_offset for key, summary in found.items() if (known := _with_count(summary))
        }
        ends = await self._ends.of(group_id, starts)
        return {key: _row(key.partition, summary, ends.get(key)) for key, summary in found.items()}

    async def _summary(self, group_id: str, partition: TopicIdPartition) -> StateSummary | KafkaError:
        try:
            return await self._persister.read_summary(SharePartitionKey(group_id, *partition))
        except KafkaError as error:
            return error


def _requested(request: pb.DescribeShareGroupOffsetsRequest.Group) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic in request.topics:
        topics.setdefault(topic.topic_name, []).extend(topic.partitions)
    return topics


def _with_count(summary: StateSummary | KafkaError) -> StateSummary | None:
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
            row.oldest_timestamp = end.timestamp if row.lag else 0
            # A leader that has not loaded the share-partition counts no locks, also no durable ones.
            locked = max(end.locked, summary.locked_count)
            row.archiving = min(summary.archiving_count, max(row.lag, 0))
            unfailed = row.lag - row.archiving
            row.waiting, row.locked = _parts(unfailed, summary.waiting_count + end.scheduled, locked)
            row.ready = unfailed - row.waiting - row.locked
    return row


def _unread(topic: str, partition: int, start: int, end: LogEnd) -> UnreadLag:
    waiting, locked = _parts(lag := end.offset - start, end.scheduled, end.locked)
    return UnreadLag(topic, partition, lag, end.timestamp, locked, waiting)


def _parts(lag: int, waiting: int, locked: int) -> tuple[int, int]:
    """Returns the waiting and locked records of a lag.

    Counted at slightly different times, they might otherwise exceed it.
    """
    waiting = min(waiting, max(lag, 0))
    return waiting, min(locked, max(lag, 0) - waiting)
