"""ShareAcknowledge, and what it shares with ShareFetch: acknowledgements of a session, and its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from libs.clock import now
from libs.rpc.in_band import wire
from services.gateway.clients.deadline import Deadline
from services.gateway.config import REQUEST_TIMEOUT
from services.gateway.core.fetch import begin_acknowledge, merged
from services.gateway.core.sessions import Session
from services.gateway.core.validation import batches_refusal, check_group_id, check_member_id
from services.gateway.core.values import AckBatch, SessionKey, TopicPartition
from services.gateway.service.gateway import Gateway
from sharebroker.delivery.v1 import delivery_pb2 as delivery
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.gateway.v1 import share_pb2 as pb
from sharebroker.share_partition_leader.v1 import share_partition_leader_pb2 as leader

if TYPE_CHECKING:
    from sharebroker.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub as Stub,
    )

Part = leader.AcknowledgeRecordsRequest.Partition
Answer = leader.AcknowledgeRecordsResponse.Partition
AckResults = Mapping[TopicPartition, KafkaError | None]


async def share_acknowledge(
    gateway: Gateway, request: pb.ShareAcknowledgeRequest, deadline: Deadline
) -> pb.ShareAcknowledgeResponse:
    """Serve a ShareAcknowledge. Raises KafkaError for a refused request."""
    check_group_id(request.group_id)
    check_member_id(request.member_id)
    key = SessionKey(request.group_id, request.member_id)
    context = begin_acknowledge(gateway.sessions, key, request.share_session_epoch, now())
    asked = merged(
        (TopicPartition(topic.topic_id, part.partition_index), ack_batches(part.acknowledgement_batches))
        for topic in request.topics
        for part in topic.partitions
    )
    results = await acknowledge(gateway, key, asked, deadline, renew_allowed=request.is_renew_ack)
    if context.final:
        end_session(gateway, context.session)
    response = _response(results)
    response.acquisition_lock_timeout_ms = gateway.lock_timeout_ms(key.group_id)
    return response


def ack_batches(batches: Iterable[pb.AcknowledgementBatch]) -> list[AckBatch]:
    """Batches of a request as values."""
    return [
        AckBatch(batch.first_offset, batch.last_offset, tuple(batch.acknowledge_types)) for batch in batches
    ]


async def acknowledge(
    gateway: Gateway,
    key: SessionKey,
    asked: Mapping[TopicPartition, Sequence[AckBatch]],
    deadline: Deadline,
    *,
    renew_allowed: bool,
) -> AckResults:
    """Check and apply the batches of each partition, all or nothing; the outcome of each, durable."""
    results = {
        part: _refusal(gateway, part, batches, renew_allowed=renew_allowed) for part, batches in asked.items()
    }
    parts = [_part(part, batches) for part, batches in asked.items() if batches and results[part] is None]

    async def send(stub: Stub, some: list[Part], left: float) -> Sequence[Answer]:
        request = leader.AcknowledgeRecordsRequest(
            group_id=key.group_id, member_id=key.member_id, partitions=some, renew_allowed=renew_allowed
        )
        return (await stub.AcknowledgeRecords(request, timeout=left)).partitions

    for answer in await gateway.leaders.each(parts, send, Answer, deadline):
        if answer.error_code:
            error = KafkaError(ErrorCode(answer.error_code), answer.error_message)
            results[TopicPartition(answer.topic_id, answer.partition)] = error
    return results


def end_session(gateway: Gateway, session: Session) -> None:
    """Remove the session; the leaders release what its member holds, and nobody waits for that."""
    gateway.sessions.close(session)
    gateway.background(_release(gateway, session), "could not release the records of a session")


async def _release(gateway: Gateway, session: Session) -> None:
    parts = [delivery.TopicPartition(topic_id=p.topic_id, partition=p.partition) for p in session.partitions]
    peers, _ = await gateway.leaders.by_leader(parts)
    for peer, some in peers:
        request = leader.ReleaseMemberRequest(
            group_id=session.key.group_id, member_id=session.key.member_id, partitions=some
        )
        await peer.stub.ReleaseMember(request, timeout=REQUEST_TIMEOUT)


def _refusal(
    gateway: Gateway, part: TopicPartition, batches: Sequence[AckBatch], *, renew_allowed: bool
) -> KafkaError | None:
    problem = batches_refusal(batches, renew_allowed=renew_allowed)
    if problem is not None:
        return KafkaError(ErrorCode.INVALID_REQUEST, problem)
    code = gateway.partition_error(*part)
    return KafkaError(code) if code else None


def _part(part: TopicPartition, batches: Sequence[AckBatch]) -> Part:
    return Part(
        topic_id=part.topic_id,
        partition=part.partition,
        batches=[
            leader.AcknowledgeRecordsRequest.Batch(
                first_offset=batch.first, last_offset=batch.last, acknowledge_types=batch.types
            )
            for batch in batches
        ],
    )


def _response(results: AckResults) -> pb.ShareAcknowledgeResponse:
    response = pb.ShareAcknowledgeResponse()
    topics: dict[str, pb.ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = {}
    for part, error in results.items():
        topic = topics.get(part.topic_id) or response.responses.add(topic_id=part.topic_id)
        topics[part.topic_id] = topic
        data = topic.partitions.add(partition_index=part.partition)
        if error is not None:
            data.error_code = wire(error.code)
            data.error_message = error.message
            if error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
                data.current_leader.leader_id = data.current_leader.leader_epoch = -1
    return response
