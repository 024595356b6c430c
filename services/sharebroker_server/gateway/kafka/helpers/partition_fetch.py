"""The partitions of a Fetch: ordinary topics are read at their leaders, internal ones at coordinators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.gateway.admin import internal_topics
from sharebroker_server.gateway.config import MAX_WAIT
from sharebroker_server.gateway.kafka.dispatch.call import Call
from sharebroker_server.gateway.kafka.dispatch.error_versions import told
from sharebroker_server.gateway.kafka.helpers.topics import Part, Refused, is_internal
from sharebroker_server.gateway.log_fetch import LogFetchLimits, Result, fetch_log
from sharebroker_server.kafka_wire.message_classes import Message, response_shapes

_FETCH: Final = 1
_R = response_shapes(_FETCH)

_NO_OFFSET: Final = -1
_LEAST_SHARE: Final = 16 * 1024
"""Bytes that a partition of an internal topic may give of the answer, however many are asked for."""

_MEANS_MOVED: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)
"""Errors that Java's consumer does not expect here: it would give up."""

_TOLD_IN_TIME: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Errors that do not cut the wait for others short, as in Kafka: clients that ask for a topic that is gone
would ask again and again without a pause."""


class LogReading:
    """One Fetch. It waits unless a partition moved elsewhere, or none can be served.

    Where both kinds of topics are asked for, the internal ones are looked at first, and what comes of them
    while the others are waited for is told by the next Fetch.
    """

    def __init__(self, call: Call, located: Sequence[Part | Refused]) -> None:
        self._call = call
        wanted = call.most_bytes(call.request.max_bytes)
        self._max_bytes = min(max(wanted, 0), call.gateway.catalog.broker.fetch_max_bytes)
        waits = call.request.min_bytes > 0 and all(map(_may_wait, located))
        self._wait = min(max(call.request.max_wait_ms, 0) / 1000, MAX_WAIT) if waits else 0.0
        self._mixed = len({is_internal(one.topic) for one in located if isinstance(one, Part)}) > 1

    async def ordinary(self, some: list[Part]) -> list[Message]:
        """Answers for partitions of ordinary topics."""
        committed = bool(self._call.request.isolation_level)
        wanted = [
            pb.FetchRequest.Partition(
                topic_id=topic.topic_id,
                partition=asked.partition,
                fetch_offset=asked.fetch_offset,
                partition_max_bytes=max(asked.partition_max_bytes, 0),
            )
            for topic, asked in some
        ]
        limits = LogFetchLimits(self._wait, self._call.request.min_bytes, self._max_bytes, committed)
        fetched = await fetch_log(self._call.gateway, wanted, limits)
        return [_of_log(answer, self._call.version, committed=committed) for answer in fetched]

    async def internal(self, some: list[Part]) -> list[Message]:
        """Answers for partitions of internal topics."""
        most = max(self._max_bytes // len(some), _LEAST_SHARE)
        wanted = [
            internal_topics.FetchPartition(
                topic.topic_id,
                asked.partition,
                asked.fetch_offset,
                min(max(asked.partition_max_bytes, 0), most),
            )
            for topic, asked in some
        ]
        fetched = await internal_topics.fetch(self._call.gateway, wanted, 0.0 if self._mixed else self._wait)
        if any(isinstance(one, KafkaError) or one.record_batches for one in fetched):
            self._wait = 0.0
        return self._of_internal(wanted, fetched)

    def _of_internal(
        self,
        wanted: Sequence[internal_topics.FetchPartition],
        fetched: Sequence[internal_topics.Fetched | KafkaError],
    ) -> list[Message]:
        room = self._max_bytes
        answers = []
        for asked, one in zip(wanted, fetched, strict=True):
            if isinstance(one, KafkaError):
                answers.append(failed(asked.partition, one.code, self._call.version))
                continue
            fits = len(one.record_batches) <= room or room == self._max_bytes
            records = one.record_batches if fits else b""
            room -= len(records)
            answers.append(_of_shard(asked.partition, one, records))
        return answers


def _may_wait(one: Part | Refused) -> bool:
    return isinstance(one, Part) or one.error.code in _TOLD_IN_TIME


def _of_log(answer: Result, version: int, *, committed: bool) -> Message:
    if answer.error_code:
        return failed(answer.partition, ErrorCode(answer.error_code), version)
    aborted = [
        _R.AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
        for one in answer.aborted_transactions
    ]
    return _R.PartitionData(
        partition_index=answer.partition,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.log_start_offset,
        aborted_transactions=aborted if committed else None,
        records=answer.records,
    )


def _of_shard(partition: int, fetched: internal_topics.Fetched, records: bytes) -> Message:
    return _R.PartitionData(
        partition_index=partition,
        high_watermark=fetched.high_watermark,
        last_stable_offset=fetched.high_watermark,
        log_start_offset=fetched.log_start_offset,
        aborted_transactions=None,
        records=records,
    )


def failed(partition: int, code: ErrorCode, version: int, **more: Any) -> Message:
    """The answer for a partition that cannot be read."""
    return _R.PartitionData(
        partition_index=partition,
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _MEANS_MOVED else told(_FETCH, version, code),
        high_watermark=_NO_OFFSET,
        aborted_transactions=None,
        **more,
    )
