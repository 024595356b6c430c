"""ShareFetch: a session's fetch over all leaders, with the acknowledgements that ride on it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from libs.clock import now
from libs.rpc.in_band import wire
from services.gateway.clients.deadline import Deadline
from services.gateway.config import MAX_WAIT, SESSION_IDLE
from services.gateway.core.fetch import (
    FetchContext,
    FetchIntent,
    PartitionOutcome,
    begin_fetch,
    merged,
    shown_error,
)
from services.gateway.core.validation import (
    check_bounds,
    check_group_id,
    check_member_id,
    check_renewing_fetch,
)
from services.gateway.core.values import AckBatch, SessionKey, TopicPartition
from services.gateway.service.acquire_records import Acquisition, Answer, FetchLimits
from services.gateway.service.gateway import Gateway
from services.gateway.service.share_acknowledge import AckResults, ack_batches, acknowledge, end_session
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.gateway.v1 import share_pb2 as pb

_NO_LEADER = pb.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
_NOBODY_LEADS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
_Asked = dict[TopicPartition, list[AckBatch]]


async def share_fetch(
    gateway: Gateway, request: pb.ShareFetchRequest, connection: str, deadline: Deadline
) -> pb.ShareFetchResponse:
    """Serve a ShareFetch; `connection` names the client's connection. Raises KafkaError."""
    _check(request)
    asked = merged(
        (TopicPartition(topic.topic_id, part.partition_index), ack_batches(part.acknowledgement_batches))
        for topic in request.topics
        for part in topic.partitions
    )
    intent = _intent(request, connection, asked)
    context = await _begin(gateway, request, intent)
    acknowledged = await acknowledge(
        gateway,
        intent.key,
        {part: batches for part, batches in asked.items() if batches},
        deadline,
        renew_allowed=request.is_renew_ack,
    )
    response = _response(context, await _fetch(gateway, context, request), acknowledged)
    response.acquisition_lock_timeout_ms = gateway.lock_timeout_ms(request.group_id)
    if context.final:
        end_session(gateway, context.session)
    return response


def _intent(request: pb.ShareFetchRequest, connection: str, asked: _Asked) -> FetchIntent:
    return FetchIntent(
        SessionKey(request.group_id, request.member_id),
        request.share_session_epoch,
        connection,
        wanted=tuple(asked),
        forgotten=tuple(
            TopicPartition(topic.topic_id, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ),
        acknowledges=any(asked.values()),
    )


def _check(request: pb.ShareFetchRequest) -> None:
    check_group_id(request.group_id)
    check_member_id(request.member_id)
    check_bounds("max_wait_ms", request.max_wait_ms, 0, 2**31 - 1)
    check_bounds("max_records", request.max_records, 0, 2**31 - 1)
    if request.is_renew_ack:
        check_renewing_fetch(
            max_wait_ms=request.max_wait_ms,
            min_bytes=request.min_bytes,
            max_bytes=request.max_bytes,
            max_records=request.max_records,
        )


async def _begin(gateway: Gateway, request: pb.ShareFetchRequest, intent: FetchIntent) -> FetchContext:
    for session in gateway.sessions.expire(now() - SESSION_IDLE):
        end_session(gateway, session)
    try:
        return begin_fetch(gateway.sessions, intent, now())
    except KafkaError as error:
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            await asyncio.sleep(_wait(request))  # a client that tries at once would only spin
        raise


def _wait(request: pb.ShareFetchRequest) -> float:
    return min(request.max_wait_ms / 1000, MAX_WAIT)


async def _fetch(
    gateway: Gateway, context: FetchContext, request: pb.ShareFetchRequest
) -> Mapping[TopicPartition, Answer]:
    """What each partition of the session gives, in the order they were served."""
    max_bytes = gateway.config.fetch_max_bytes
    if request.HasField("max_bytes"):
        max_bytes = min(request.max_bytes, max_bytes)
    if not context.partitions or request.is_renew_ack or not request.max_records or not max_bytes:
        return {part: Answer() for part in context.partitions}
    unknown = {
        part: Answer(error_code=wire(code))
        for part in context.partitions
        if (code := gateway.partition_error(*part))
    }
    limits = FetchLimits(
        max_wait=0.0 if unknown else _wait(request),
        max_records=request.max_records,
        min_bytes=request.min_bytes,
        max_bytes=max_bytes,
        batch_size=request.batch_size,
        mode=request.share_acquire_mode,
    )
    known = [part for part in context.partitions if part not in unknown]
    acquired = await Acquisition(gateway.leaders, context.session.key, limits).run(known) if known else {}
    return {part: unknown.get(part) or acquired.get(part) or Answer() for part in context.partitions}


def _response(
    context: FetchContext, answers: Mapping[TopicPartition, Answer], acknowledged: AckResults
) -> pb.ShareFetchResponse:
    outcomes = [
        PartitionOutcome(part, bool(answer.record_batches), ErrorCode(answer.error_code))
        for part, answer in answers.items()
    ]
    reported = set(context.reported(outcomes))
    response = pb.ShareFetchResponse()
    topics: dict[str, pb.ShareFetchResponse.ShareFetchableTopicResponse] = {}
    for part in [
        *(part for part in answers if part in reported),
        *(p for p in acknowledged if p not in reported),
    ]:
        topic = topics.get(part.topic_id) or response.responses.add(topic_id=part.topic_id)
        topics[part.topic_id] = topic
        data = topic.partitions.add(partition_index=part.partition)
        if part in reported:
            _fill(data, answers[part])
        if part in acknowledged:
            _fill_acknowledged(data, acknowledged[part])
    return response


def _fill(data: pb.ShareFetchResponse.PartitionData, answer: Answer) -> None:
    code = shown_error(ErrorCode(answer.error_code))
    data.error_code = wire(code)
    data.error_message = answer.error_message
    data.records = answer.record_batches
    data.acquired_records.MergeFrom(answer.acquired)
    if code in _NOBODY_LEADS:
        data.current_leader.CopyFrom(_NO_LEADER)


def _fill_acknowledged(data: pb.ShareFetchResponse.PartitionData, error: KafkaError | None) -> None:
    if error is not None:
        data.acknowledge_error_code = wire(error.code)
        data.acknowledge_error_message = error.message
        if error.code in _NOBODY_LEADS:
            data.current_leader.CopyFrom(_NO_LEADER)
