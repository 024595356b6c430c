"""Acquire and Acknowledge: the unary counterparts of a Consume stream."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from sharebroker_protocol.clock import Deadline, now
from sharebroker_protocol.errors import KafkaError, invalid_field
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.model import LONGEST_STORED_REASON, AckBatch
from sharebroker_server.catalog.topics import check_group_id
from sharebroker_server.gateway.authorization import TOPIC, Access
from sharebroker_server.gateway.clients import REQUEST_TIMEOUT
from sharebroker_server.gateway.consume.record_decoding import ack_parts, first_portion, rest_parts
from sharebroker_server.gateway.consume.topic_acquire import AcquireLimits, TopicAcquire
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.share_sessions import SessionKey
from sharebroker_server.gateway.core.validation import (
    MAX_WAIT,
    RELEASE,
    RENEW,
    batches_refusal,
    check_bounds,
    check_delay,
    check_lock,
    check_member_id,
    check_topic_names,
)
from sharebroker_server.leader_calls.values import AcknowledgeCall, AckPart, AckResult
from sharebroker_server.rpc.errors import wire
from sharebroker_server.security.acl import AclOperation

MAX_ACQUIRE_RECORDS: Final = 1_000
MAX_ACQUIRE_TOPICS: Final = 1_000
"""Topics of one Acquire, whose partitions are all searched in one step of the event loop."""

_DECISIONS: Final = 250
"""Decisions that one step of the event loop handles, and that one call of a leader has."""

Decision = pb.AcknowledgeRequest.Decision


class UnaryConsumer:
    """Serves members without a stream; they keep their locks between calls."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._topics = TopicAcquire(gateway)

    async def acquire(
        self, request: pb.AcquireRequest, access: Access, deadline: Deadline
    ) -> pb.AcquireResponse:
        """Acquires records from any partition of the topics. Raises KafkaError."""
        _check(request)
        check_lock("lock_ms", request.lock_ms, self._gateway.config.group_share_max_lock_ms)

        def check() -> None:
            access.require_read(request.group_id, request.topics)

        check()
        await access.admit_fetch(deadline)
        topics = [self._gateway.topic(name) for name in dict.fromkeys(request.topics)]
        key = SessionKey(request.group_id, request.member_id or str(uuid4()), access.principal)
        lock = request.lock_ms / 1000
        limits = AcquireLimits(request.max_records or 1, request.max_wait_ms / 1000, lock=lock)
        work = self._topics.acquire(key, [(topic, ()) for topic in topics], limits, deadline)
        acquired = await access.run(check, work)
        names = {topic.topic_id: topic.name for topic in topics}
        sources = [(result, names[result.topic_id]) for result in acquired.values()]
        portion = await first_portion(sources, as_text=request.as_text)
        undelivered = [*ack_parts(portion.unreadable), *rest_parts(sources, portion.rest)]
        if undelivered:
            self._gateway.background(
                self._acknowledge(key, undelivered), "acknowledgement of undelivered offsets failed"
            )
        access.charge_fetched(sum(len(result.records) for result in acquired.values()))
        return pb.AcquireResponse(member_id=key.member_id, records=portion.records)

    async def acknowledge(
        self, request: pb.AcknowledgeRequest, access: Access, deadline: Deadline
    ) -> pb.AcknowledgeResponse:
        """Applies acknowledgements; each has its own durable result. Raises KafkaError."""
        check_group_id(request.group_id)
        check_member_id(request.member_id)
        access.require_read(request.group_id)
        topics, turns = {decision.topic for decision in request.acknowledgements}, self._gateway.turns
        denied = {name: access.denial(AclOperation.READ, TOPIC, name) for name in topics}
        permitted = (
            self._part(index, decision)
            for index, decision in enumerate(request.acknowledgements)
            if denied[decision.topic] is None
        )
        parts = await turns.collect(permitted, _DECISIONS)
        key = SessionKey(request.group_id, request.member_id, access.principal)
        found: list[AckResult] = []
        async for portion in turns.portions(parts, _DECISIONS):
            found += await self._gateway.leaders.acknowledge(_acknowledge_call(key, portion), deadline)
        results = iter(found)
        renewed_at, lock_ms = round(now() * 1000), self._gateway.catalog.lock_timeout_ms(key.group_id)
        answers = (
            _result(decision, next(results), renewed_at + (decision.lock_ms or lock_ms))
            if (error := denied[decision.topic]) is None
            else _refused(decision, error)
            for decision in request.acknowledgements
        )
        return pb.AcknowledgeResponse(results=await turns.collect(answers, _DECISIONS))

    def _part(self, index: int, decision: Decision) -> AckPart:
        field = f"acknowledgements[{index}]"
        if not decision.type:
            raise invalid_field(f"{field}.type", "An acknowledgement needs a type.")
        check_delay(f"{field}.delay_ms", decision.delay_ms, decision.type)
        if decision.blameless and decision.type != RELEASE:
            raise invalid_field(f"{field}.blameless", "blameless is for RELEASE only.")
        if decision.lock_ms and decision.type != RENEW:
            raise invalid_field(f"{field}.lock_ms", "lock_ms is for RENEW only.")
        check_lock(f"{field}.lock_ms", decision.lock_ms, self._gateway.config.group_share_max_lock_ms)
        topic = self._gateway.topic(decision.topic, f"{field}.topic")
        last = decision.last_offset if decision.HasField("last_offset") else decision.offset
        batch = AckBatch(decision.offset, last, (decision.type,), decision.lock_token or None)
        problem = batches_refusal([batch], renew_allowed=True)
        if problem is not None:
            raise invalid_field(field, problem)
        delay = decision.delay_ms / 1000 if decision.HasField("delay_ms") else None
        lock, blameless = decision.lock_ms / 1000, decision.blameless
        reason = decision.reason[:LONGEST_STORED_REASON]
        return AckPart(topic.topic_id, decision.partition, [batch], delay, lock, blameless, reason)

    async def _acknowledge(self, key: SessionKey, parts: list[AckPart]) -> None:
        call = _acknowledge_call(key, parts)
        await self._gateway.leaders.acknowledge(call, Deadline(REQUEST_TIMEOUT))


def _acknowledge_call(key: SessionKey, parts: list[AckPart]) -> AcknowledgeCall:
    return AcknowledgeCall(key.group_id, key.member_id, parts, renew_allowed=True, principal=key.principal)


def _check(request: pb.AcquireRequest) -> None:
    check_group_id(request.group_id)
    if request.member_id:
        check_member_id(request.member_id)
    if not 1 <= len(request.topics) <= MAX_ACQUIRE_TOPICS:
        raise invalid_field("topics", f"1 to {MAX_ACQUIRE_TOPICS} topics are allowed.")
    check_topic_names("topics", request.topics)
    check_bounds("max_records", request.max_records, 0, MAX_ACQUIRE_RECORDS)
    check_bounds("max_wait_ms", request.max_wait_ms, 0, round(MAX_WAIT * 1000))


def _refused(decision: Decision, error: KafkaError) -> pb.AcknowledgeResponse.Result:
    return _result(decision, AckResult("", decision.partition, error.code, error.message), 0)


def _result(decision: Decision, result: AckResult, renewed_until: int) -> pb.AcknowledgeResponse.Result:
    return pb.AcknowledgeResponse.Result(
        topic=decision.topic,
        partition=decision.partition,
        offset=decision.offset,
        error_code=wire(result.error_code),
        error_message=result.error_message,
        lock_deadline_ms=renewed_until if decision.type == RENEW and not result.error_code else 0,
    )
