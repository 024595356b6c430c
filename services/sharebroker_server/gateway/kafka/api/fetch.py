"""Fetch (1): record batches from the logs, for consumers without a share group.

Every fetch is a full one: this broker never opens a fetch session, which KIP-227 permits. Partitions of
ordinary topics are read at their leaders, those of internal topics at their coordinators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.gateway.admin import internal_topics
from sharebroker_server.gateway.core.validation import MAX_WAIT
from sharebroker_server.gateway.kafka.call import Api, Call, for_version
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.gateway.kafka.topics import (
    PORTION,
    Located,
    Rejected,
    by_topic,
    each_partition,
    grouped,
    is_internal,
    locate,
)
from sharebroker_server.gateway.log_fetch import LogFetchLimits, Result, fetch_log
from sharebroker_server.kafka_wire.messages import FetchRequest, FetchResponse
from sharebroker_server.security.acl import AclOperation

_FULL: Final = (0, -1)
"""Session epochs of full fetches: one requests a session, the other one closes it."""

_BY_ID: Final = 13
"""From this version on requests name topics by id."""

_ERROR_OF_REQUEST: Final = 7
"""From this version on the response has an error for the whole request."""

_NO_OFFSET: Final = -1
_MIN_SHARE: Final = 16 * 1024
"""Bytes that a partition of an internal topic may contribute to the response, however many are fetched."""

_LEADER_MOVED: Final = frozenset(
    {ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)
"""Errors that are sent as NOT_LEADER_OR_FOLLOWER:

Java's consumer does not expect them here and would fail.
"""

SENT_AFTER_WAIT: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""Errors that do not end the wait for other partitions early, as in Kafka: otherwise clients that fetch a
deleted or forbidden topic would repeat their request without a pause."""

_Item = FetchRequest.FetchPartition
_Located = Located[_Item] | Rejected[_Item]
_Result = FetchResponse.PartitionData

_Topic = FetchResponse.FetchableTopicResponse
_partition = to_proto(_Item, pb.FetchRequest.Partition)
_result = to_kafka(Result, _Result, {"partition_index": "partition"})
_internal_result = to_kafka(internal_topics.Fetched, _Result, {"last_stable_offset": "high_watermark"})


async def handle(call: Call[FetchRequest]) -> FetchResponse:
    """Returns one result per partition; the first one has records whatever their size."""
    check_full(call.request)
    turns = call.gateway.turns
    lookups = (
        locate(
            call,
            AclOperation.READ,
            item,
            item.partition,
            item.current_leader_epoch,
            name=topic.topic if call.version < _BY_ID else None,
            topic_id=topic.topic_id,
        )
        for topic in call.request.topics
        for item in topic.partitions
    )
    located = await turns.collect(map(_here, lookups), PORTION)
    reader = FetchReader(call, located)
    results = await each_partition(
        located,
        reader.ordinary,
        reader.internal,
        lambda rejected: failed(rejected.item.partition, rejected.error.code, call.version),
        turns,
        together=True,
    )
    response = FetchResponse(responses=await by_topic(call, results, _Topic))
    moved = [
        (TopicIdPartition(one.led_elsewhere, one.item.partition), result)
        for one, result in zip(located, results, strict=True)
        if isinstance(one, Rejected) and one.led_elsewhere
    ]
    call.view.add_leader_hints(response, moved)
    return response


def check_full(request: FetchRequest) -> None:
    """Raises FETCH_SESSION_ID_NOT_FOUND unless the fetch is a full one."""
    if request.session_epoch not in _FULL:
        raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def _here(found: _Located) -> _Located:
    """Rejects a partition of another cluster's topic: a consumer without a share group reads it there.

    The response has no text. Of the codes that end a consumer, this one names the topic.
    """
    if isinstance(found, Located) and found.topic.upstream:
        return Rejected(found.item, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return found


class FetchReader:
    """Reads for one Fetch. It waits unless a partition moved elsewhere, or no partition can be read.

    If a request has both kinds of topics, the internal ones are read first. Records that arrive there while
    the ordinary topics are awaited are returned by the next Fetch.
    """

    def __init__(self, call: Call[FetchRequest], partitions: Sequence[_Located]) -> None:
        self._call = call
        requested = call.limit_bytes(call.request.max_bytes)
        self._max_bytes = min(max(requested, 0), call.gateway.catalog.broker.fetch_max_bytes)
        waits = call.request.min_bytes > 0 and all(map(_may_wait, partitions))
        self._wait = min(max(call.request.max_wait_ms, 0) / 1000, MAX_WAIT) if waits else 0.0
        self._mixed = len({is_internal(one.topic) for one in partitions if isinstance(one, Located)}) > 1

    async def ordinary(self, partitions: list[Located[_Item]]) -> list[_Result]:
        """Reads partitions of ordinary topics."""
        committed = bool(self._call.request.isolation_level)
        turns = self._call.gateway.turns
        requested = await turns.collect(
            (
                _partition(
                    item, topic_id=topic.topic_id, partition_max_bytes=max(item.partition_max_bytes, 0)
                )
                for topic, item in partitions
            ),
            PORTION,
        )
        limits = LogFetchLimits(self._wait, self._call.request.min_bytes, self._max_bytes, committed)
        fetched = await fetch_log(self._call.gateway, requested, limits)
        return await turns.collect((self._converted(result, committed) for result in fetched), PORTION)

    def _converted(self, result: Result, committed: bool) -> _Result:
        if result.error_code:
            return failed(result.partition, ErrorCode(result.error_code), self._call.version)
        return _result(result) if committed else _result(result, aborted_transactions=None)

    async def internal(self, partitions: list[Located[_Item]]) -> list[_Result]:
        """Reads partitions of internal topics."""
        most = max(self._max_bytes // len(partitions), _MIN_SHARE)
        requested = [
            internal_topics.FetchPartition(
                topic.topic_id, item.partition, item.fetch_offset, min(max(item.partition_max_bytes, 0), most)
            )
            for topic, item in partitions
        ]
        wait = 0.0 if self._mixed else self._wait
        fetched = await internal_topics.fetch(self._call.gateway, requested, wait)
        if any(isinstance(one, KafkaError) or one.record_batches for one in fetched):
            self._wait = 0.0
        remaining = self._max_bytes
        results = []
        for item, result in zip(requested, fetched, strict=True):
            if isinstance(result, KafkaError):
                results.append(failed(item.partition, result.code, self._call.version))
                continue
            fits = len(result.record_batches) <= remaining or remaining == self._max_bytes
            records = result.record_batches if fits else b""
            remaining -= len(records)
            made = _internal_result(result, partition_index=item.partition, records=records)
            made.aborted_transactions = None
            results.append(made)
        return results


def _may_wait(partition: _Located) -> bool:
    return isinstance(partition, Located) or partition.error.code in SENT_AFTER_WAIT


def failed(partition: int, code: ErrorCode, version: int) -> _Result:
    """Returns the result of a partition that cannot be read."""
    moved = code in _LEADER_MOVED
    return _Result(
        partition_index=partition,
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER if moved else for_version(API.key, version, code),
        high_watermark=_NO_OFFSET,
        aborted_transactions=None,
    )


def _refuse(call: Call[FetchRequest], error: KafkaError) -> FetchResponse:
    """Returns the error of the request; before version 7 each partition has it, as in Kafka."""
    if call.version >= _ERROR_OF_REQUEST:
        return FetchResponse(error_code=error.code)
    items = (item for topic in call.request.topics for item in topic.partitions)
    results = (failed(item.partition, error.code, call.version) for item in items)
    return FetchResponse(responses=[*grouped(call.request.topics, results, _Topic)])


API = Api(1, (4, 18), handle, _refuse, waits=True)
