"""ShareFetch and ShareAcknowledge: translates the messages of ShareService for `gateway.share`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_server.gateway.authorization import Caller
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.core.validation import acquire_mode
from sharebroker_server.gateway.share.acknowledge import AckResults, ShareAcknowledge
from sharebroker_server.gateway.share.fetch import FetchedPartition, ShareFetch
from sharebroker_server.leader_calls.messages import add_acquired
from sharebroker_server.rpc.errors import wire

_NO_LIMIT: Final = 2**31 - 1
_NO_LEADER: Final = pb.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
_NOT_THE_LEADER: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def fetch_of(request: pb.ShareFetchRequest, caller: Caller, principal: str) -> ShareFetch:
    """Reads a request of a caller. Raises KafkaError."""
    limited = request.HasField("max_bytes") or request.is_renew_ack
    return ShareFetch(
        caller,
        SessionKey(request.group_id, request.member_id, principal),
        request.share_session_epoch,
        _acks_by_partition(request.topics),
        tuple(
            TopicIdPartition(topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ),
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes if limited else _NO_LIMIT,
        max_records=request.max_records,
        batch_size=request.batch_size,
        mode=acquire_mode(request.share_acquire_mode),
        renews=request.is_renew_ack,
        lock=request.lock_ms / 1000,
    )


def acknowledge_of(request: pb.ShareAcknowledgeRequest, caller: Caller, principal: str) -> ShareAcknowledge:
    """Reads a request of a caller."""
    return ShareAcknowledge(
        caller,
        SessionKey(request.group_id, request.member_id, principal),
        request.share_session_epoch,
        _acks_by_partition(request.topics),
        request.is_renew_ack,
    )


def fetch_response(fetched: Sequence[FetchedPartition], lock_timeout_ms: int) -> pb.ShareFetchResponse:
    """Builds the response to a ShareFetch."""
    response = pb.ShareFetchResponse(acquisition_lock_timeout_ms=lock_timeout_ms)
    topics: dict[str, pb.ShareFetchResponse.ShareFetchableTopicResponse] = {}
    for partition in fetched:
        topic_id, index = partition.partition
        topic = topics.get(topic_id) or response.responses.add(topic_id=topic_id)
        topics[topic_id] = topic
        data = topic.partitions.add(
            partition_index=index,
            error_code=wire(partition.error),
            error_message=partition.message,
            records=partition.records,
        )
        add_acquired(data.acquired_records, partition.acquired)
        if partition.acknowledge_error is not None:
            data.acknowledge_error_code = wire(partition.acknowledge_error.code)
            data.acknowledge_error_message = partition.acknowledge_error.message
            _show_leader(data, partition.acknowledge_error.code)
        _show_leader(data, partition.error)
    return response


def acknowledge_response(results: AckResults, lock_timeout_ms: int) -> pb.ShareAcknowledgeResponse:
    """Builds the response to a ShareAcknowledge."""
    response = pb.ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_timeout_ms)
    topics: dict[str, pb.ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = {}
    for (topic_id, index), error in results.items():
        topic = topics.get(topic_id) or response.responses.add(topic_id=topic_id)
        topics[topic_id] = topic
        data = topic.partitions.add(partition_index=index)
        if isinstance(error, KafkaError):
            data.error_code = wire(error.code)
            data.error_message = error.message
            _show_leader(data, error.code)
    return response


def _show_leader(
    data: pb.ShareFetchResponse.PartitionData | pb.ShareAcknowledgeResponse.PartitionData, code: ErrorCode
) -> None:
    if code in _NOT_THE_LEADER:
        data.current_leader.CopyFrom(_NO_LEADER)


def _acks_by_partition(topics: Iterable[Any]) -> dict[TopicIdPartition, list[AckBatch]]:
    """The ack batches of each partition, in the order of the first mention."""
    acks: dict[TopicIdPartition, list[AckBatch]] = {}
    for topic in topics:
        for part in topic.partitions:
            acks.setdefault(TopicIdPartition(topic.topic_id, part.partition_index), []).extend(
                AckBatch(batch.first_offset, batch.last_offset, tuple(batch.acknowledge_types))
                for batch in part.acknowledgement_batches
            )
    return acks
