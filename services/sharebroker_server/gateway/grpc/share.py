"""Serves ShareService: translates its messages for `gateway.share` and `gateway.consume`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final

from typing_extensions import override

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.gateway.v1.share_pb2_grpc import ShareServiceServicer
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as group
from sharebroker_protocol.model import AckBatch, TopicIdPartition
from sharebroker_server.catalog.topics import check_group_id
from sharebroker_server.gateway.consume.membership import send_heartbeat
from sharebroker_server.gateway.consume.stream import consume
from sharebroker_server.gateway.consume.unary import UnaryConsumer
from sharebroker_server.gateway.context import Gateway, deadline_of
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.core.validation import acquire_mode, check_member_id, check_topic_names
from sharebroker_server.gateway.share.acknowledge import (
    AckResults,
    Caller,
    ShareAcknowledge,
    share_acknowledge,
)
from sharebroker_server.gateway.share.fetch import FetchedPartition, ShareFetch, share_fetch
from sharebroker_server.leader_calls.messages import add_acquired
from sharebroker_server.rpc.errors import wire


class ShareServicer(ShareServiceServicer):
    """Translates requests to the functions of `gateway.share` and `gateway.consume`."""

    STREAMING: Final = ("Consume",)

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._unary = UnaryConsumer(gateway)

    @override
    def Consume(
        self, request_iterator: AsyncIterator[pb.ConsumeRequest], context: Any
    ) -> AsyncIterator[pb.ConsumeResponse]:
        return consume(self._gateway, request_iterator, context.peer())

    @override
    async def Acquire(self, request: pb.AcquireRequest, context: Any) -> pb.AcquireResponse:
        return await self._unary.acquire(request, deadline_of(context))

    @override
    async def Acknowledge(self, request: pb.AcknowledgeRequest, context: Any) -> pb.AcknowledgeResponse:
        return await self._unary.acknowledge(request, deadline_of(context))

    @override
    async def ShareGroupHeartbeat(
        self, request: group.ShareGroupHeartbeatRequest, context: Any
    ) -> group.ShareGroupHeartbeatResponse:
        check_group_id(request.group_id)
        check_member_id(request.member_id)
        check_topic_names("subscribed_topic_names.names", request.subscribed_topic_names.names)
        if not request.client_host:
            request.client_host = context.peer()
        return await send_heartbeat(self._gateway.coordinators, request, deadline_of(context))

    @override
    async def ShareFetch(self, request: pb.ShareFetchRequest, context: Any) -> pb.ShareFetchResponse:
        fetch, deadline = fetch_of(request, context.peer()), deadline_of(context)
        # A response after the deadline is lost, and with it the new session epoch.
        fetch = fetch._replace(max_wait_ms=min(fetch.max_wait_ms, int(deadline.remaining() * 1000)))
        fetched = await share_fetch(self._gateway, fetch, deadline)
        return fetch_response(fetched, self._gateway.lock_timeout_ms(request.group_id))

    @override
    async def ShareAcknowledge(
        self, request: pb.ShareAcknowledgeRequest, context: Any
    ) -> pb.ShareAcknowledgeResponse:
        acknowledgement = acknowledge_of(request, context.peer())
        results = await share_acknowledge(self._gateway, acknowledgement, deadline_of(context))
        return acknowledge_response(results, self._gateway.lock_timeout_ms(request.group_id))


_NO_LIMIT: Final = 2**31 - 1
_NO_LEADER: Final = pb.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
_NOT_THE_LEADER: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def fetch_of(request: pb.ShareFetchRequest, connection: str) -> ShareFetch:
    """Reads a request; `connection` names the client's connection. Raises KafkaError."""
    limited = request.HasField("max_bytes") or request.is_renew_ack
    return ShareFetch(
        Caller(connection),
        SessionKey(request.group_id, request.member_id),
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
    )


def acknowledge_of(request: pb.ShareAcknowledgeRequest, connection: str) -> ShareAcknowledge:
    """Reads a request; `connection` names the client's connection."""
    return ShareAcknowledge(
        Caller(connection),
        SessionKey(request.group_id, request.member_id),
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
