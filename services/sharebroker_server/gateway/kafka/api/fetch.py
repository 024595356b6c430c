"""Fetch (1): record batches from the logs, for consumers without a share group.

Every fetch is a full one: this broker never opens a fetch session, which KIP-227 permits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.gateway.admin import internal_topics
from sharebroker_server.gateway.config import MAX_WAIT
from sharebroker_server.gateway.kafka.call import Api, Call, for_version
from sharebroker_server.gateway.kafka.cluster_view import (
    LED_ELSEWHERE,
    current_leader,
    node_endpoints,
)
from sharebroker_server.gateway.kafka.topics import (
    Located,
    Rejected,
    by_topic,
    each_partition,
    is_internal,
    locate,
)
from sharebroker_server.gateway.log_fetch import LogFetchLimits, Result, fetch_log
from sharebroker_server.kafka_wire.messages import FetchRequest, FetchResponse

_FULL: Final = (0, -1)
"""Session epochs of full fetches: one requests a session, the other one closes it."""

_BY_ID: Final = 13
"""From this version on requests name topics by id."""

_ERROR_OF_REQUEST: Final = 7
"""From this version on the response has an error for the whole request."""


async def handle(call: Call[FetchRequest]) -> FetchResponse:
    """Returns one result per partition; the first one has records whatever their size."""
    if call.request.session_epoch not in _FULL:
        raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    located = [
        locate(
            call,
            item,
            item.partition,
            item.current_leader_epoch,
            name=topic.topic if call.version < _BY_ID else None,
            topic_id=topic.topic_id,
        )
        for topic in call.request.topics
        for item in topic.partitions
    ]
    reader = FetchReader(call, located)
    results = await each_partition(
        located, reader.ordinary, reader.internal, lambda rejected: _rejected(call, rejected)
    )
    moved = filter(None, map(_moved, located))
    response = _response(call, results)
    response.node_endpoints = node_endpoints(call.view, moved, FetchResponse.NodeEndpoint)
    return response


def _rejected(call: Call[FetchRequest], rejected: Rejected[Partition]) -> FetchResponse.PartitionData:
    result = failed(rejected.item.partition, rejected.error.code, call.version)
    moved = _moved(rejected)
    if moved is not None:
        result.current_leader = current_leader(call.view, moved, FetchResponse.LeaderIdAndEpoch)
    return result


def _moved(one: Located[Partition] | Rejected[Partition]) -> TopicIdPartition | None:
    """Returns the partition if another broker leads it."""
    if isinstance(one, Located) or one.topic is None or one.error.code not in LED_ELSEWHERE:
        return None
    return TopicIdPartition(one.topic.topic_id, one.item.partition)


def _response(call: Call[FetchRequest], results: Iterable[FetchResponse.PartitionData]) -> FetchResponse:
    return FetchResponse(
        responses=[
            FetchResponse.FetchableTopicResponse(
                topic=topic.topic, topic_id=topic.topic_id, partitions=partitions
            )
            for topic, partitions in by_topic(call.request.topics, results)
        ]
    )


def _refuse(call: Call[FetchRequest], error: KafkaError) -> FetchResponse:
    """Returns the error of the request; before version 7 each partition has it, as in Kafka."""
    if call.version >= _ERROR_OF_REQUEST:
        return FetchResponse(error_code=error.code)
    items = (item for topic in call.request.topics for item in topic.partitions)
    return _response(call, [failed(item.partition, error.code, call.version) for item in items])


API = Api(1, (4, 18), handle, _refuse, waits=True)


_FETCH: Final = 1
_NO_OFFSET: Final = -1
_MIN_SHARE: Final = 16 * 1024
"""Bytes that a partition of an internal topic may contribute to the response, however many are fetched."""

_LEADER_MOVED: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)
"""Errors that are sent as NOT_LEADER_OR_FOLLOWER:

Java's consumer does not expect them here and would fail.
"""

_SENT_AFTER_WAIT: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Errors that do not end the wait for other partitions early, as in Kafka: otherwise clients that fetch a
deleted
topic would repeat their request without a pause."""

Partition = FetchRequest.FetchPartition


class FetchReader:
    """Reads for one Fetch. It waits unless a partition moved elsewhere, or no partition can be read.

    If a request has both kinds of topics, the internal ones are read first. Records that arrive there while
    the ordinary topics are awaited are returned by the next Fetch.
    """

    def __init__(
        self, call: Call[FetchRequest], partitions: Sequence[Located[Partition] | Rejected[Partition]]
    ) -> None:
        self._call = call
        requested = call.limit_bytes(call.request.max_bytes)
        self._max_bytes = min(max(requested, 0), call.gateway.catalog.broker.fetch_max_bytes)
        waits = call.request.min_bytes > 0 and all(map(_may_wait, partitions))
        self._wait = min(max(call.request.max_wait_ms, 0) / 1000, MAX_WAIT) if waits else 0.0
        self._mixed = len({is_internal(one.topic) for one in partitions if isinstance(one, Located)}) > 1

    async def ordinary(self, partitions: list[Located[Partition]]) -> list[FetchResponse.PartitionData]:
        """Reads partitions of ordinary topics."""
        committed = bool(self._call.request.isolation_level)
        requested = [
            pb.FetchRequest.Partition(
                topic_id=topic.topic_id,
                partition=item.partition,
                fetch_offset=item.fetch_offset,
                partition_max_bytes=max(item.partition_max_bytes, 0),
            )
            for topic, item in partitions
        ]
        limits = LogFetchLimits(self._wait, self._call.request.min_bytes, self._max_bytes, committed)
        fetched = await fetch_log(self._call.gateway, requested, limits)
        return [_from_log(result, self._call.version, committed=committed) for result in fetched]

    async def internal(self, partitions: list[Located[Partition]]) -> list[FetchResponse.PartitionData]:
        """Reads partitions of internal topics."""
        most = max(self._max_bytes // len(partitions), _MIN_SHARE)
        requested = [
            internal_topics.FetchPartition(
                topic.topic_id,
                item.partition,
                item.fetch_offset,
                min(max(item.partition_max_bytes, 0), most),
            )
            for topic, item in partitions
        ]
        wait = 0.0 if self._mixed else self._wait
        fetched = await internal_topics.fetch(self._call.gateway, requested, wait)
        if any(isinstance(one, KafkaError) or one.record_batches for one in fetched):
            self._wait = 0.0
        return self._from_shards(requested, fetched)

    def _from_shards(
        self,
        requested: Sequence[internal_topics.FetchPartition],
        fetched: Sequence[internal_topics.Fetched | KafkaError],
    ) -> list[FetchResponse.PartitionData]:
        remaining = self._max_bytes
        results = []
        for item, result in zip(requested, fetched, strict=True):
            if isinstance(result, KafkaError):
                results.append(failed(item.partition, result.code, self._call.version))
                continue
            fits = len(result.record_batches) <= remaining or remaining == self._max_bytes
            records = result.record_batches if fits else b""
            remaining -= len(records)
            results.append(_from_shard(item.partition, result, records))
        return results


def _may_wait(partition: Located[Partition] | Rejected[Partition]) -> bool:
    return isinstance(partition, Located) or partition.error.code in _SENT_AFTER_WAIT


def _from_log(result: Result, version: int, *, committed: bool) -> FetchResponse.PartitionData:
    if result.error_code:
        return failed(result.partition, ErrorCode(result.error_code), version)
    aborted = [
        FetchResponse.AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
        for one in result.aborted_transactions
    ]
    return FetchResponse.PartitionData(
        partition_index=result.partition,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        aborted_transactions=aborted if committed else None,
        records=result.records,
    )


def _from_shard(
    partition: int, fetched: internal_topics.Fetched, records: bytes
) -> FetchResponse.PartitionData:
    return FetchResponse.PartitionData(
        partition_index=partition,
        high_watermark=fetched.high_watermark,
        last_stable_offset=fetched.high_watermark,
        log_start_offset=fetched.log_start_offset,
        aborted_transactions=None,
        records=records,
    )


def failed(partition: int, code: ErrorCode, version: int) -> FetchResponse.PartitionData:
    """Returns the result of a partition that cannot be read."""
    moved = code in _LEADER_MOVED
    return FetchResponse.PartitionData(
        partition_index=partition,
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER if moved else for_version(_FETCH, version, code),
        high_watermark=_NO_OFFSET,
        aborted_transactions=None,
    )
