"""Acquire and Acknowledge: a Consume stream's unary twins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from sharebroker_protocol.clock import now
from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.delivery.v1.delivery_pb2 import ACKNOWLEDGE_TYPE_GAP as GAP
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import share_pb2 as pb
from sharebroker_protocol.model import AckBatch
from sharebroker_server.catalog.names import check_group_id
from sharebroker_server.gateway.clients.deadline import Deadline
from sharebroker_server.gateway.config import MAX_ACQUIRE_RECORDS, MAX_WAIT, REQUEST_TIMEOUT
from sharebroker_server.gateway.consume.decode import decoded
from sharebroker_server.gateway.consume.topic_acquire import TopicAcquire, Wanted
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.validation import (
    RENEW,
    batches_refusal,
    check_bounds,
    check_delay,
    check_member_id,
    check_topic_names,
    refused,
)
from sharebroker_server.gateway.core.values import SessionKey
from sharebroker_server.rpc.partition_errors import wire
from sharebroker_server.share_calls.values import AcknowledgeCall, Acknowledged, AckPart

Decision = pb.AcknowledgeRequest.Decision
_KAFKAS_GAP: Final = 0


class UnaryConsumer:
    """Serves members that have no connection of their own: their records stay theirs between calls."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._topics = TopicAcquire(gateway)

    async def acquire(self, request: pb.AcquireRequest, deadline: Deadline) -> pb.AcquireResponse:
        """Acquire records of any partition of the topics. Raises KafkaError."""
        _check(request)
        topics = [self._gateway.topic(name) for name in dict.fromkeys(request.topics)]
        key = SessionKey(request.group_id, request.member_id or str(uuid4()))
        wanted = Wanted(request.max_records or 1, request.max_wait_ms / 1000)
        answers = await self._topics.acquire(key, [(topic, ()) for topic in topics], wanted, deadline)
        response = pb.AcquireResponse(member_id=key.member_id)
        names = {topic.topic_id: topic.name for topic in topics}
        for answer in answers.values():
            records, unreadable = decoded(answer, names[answer.topic_id], as_text=request.as_text)
            response.records.extend(records)
            if unreadable:
                self._gateway.background(self._give_back(key, unreadable), "could not give back gaps")
        return response

    async def acknowledge(self, request: pb.AcknowledgeRequest, deadline: Deadline) -> pb.AcknowledgeResponse:
        """Decide on records; each decision has its own durable result. Raises KafkaError."""
        check_group_id(request.group_id)
        check_member_id(request.member_id)
        parts = [self._part(index, asked) for index, asked in enumerate(request.acknowledgements)]
        key = SessionKey(request.group_id, request.member_id)
        results = await self._acknowledged(key, parts, deadline)
        renewed_until = round(now() * 1000) + self._gateway.lock_timeout_ms(key.group_id)
        return pb.AcknowledgeResponse(
            results=[
                _result(asked, result, renewed_until)
                for asked, result in zip(request.acknowledgements, results, strict=True)
            ]
        )

    def _part(self, index: int, asked: Decision) -> AckPart:
        field = f"acknowledgements[{index}]"
        if not asked.type:
            raise refused(f"{field}.type", "An acknowledgement says what became of the record.")
        check_delay(f"{field}.delay_ms", asked.delay_ms, asked.type)
        topic = self._gateway.topic(asked.topic, f"{field}.topic")
        last = asked.last_offset if asked.HasField("last_offset") else asked.offset
        problem = batches_refusal([AckBatch(asked.offset, last, (asked.type,))], renew_allowed=True)
        if problem is not None:
            raise refused(field, problem)
        batch = AckBatch(asked.offset, last, (asked.type,), asked.lock_token or None)
        return AckPart(topic.topic_id, asked.partition, [batch], asked.delay_ms / 1000)

    async def _acknowledged(
        self, key: SessionKey, parts: list[AckPart], deadline: Deadline
    ) -> list[Acknowledged]:
        call = AcknowledgeCall(*key, parts, renew_allowed=True)
        return await self._gateway.leaders.acknowledge(call, deadline)

    async def _give_back(self, key: SessionKey, unreadable: Sequence[delivery.Acknowledgement]) -> None:
        parts = [
            AckPart(
                gap.topic_id,
                gap.partition,
                [
                    AckBatch(
                        gap.first_offset, gap.last_offset, (_KAFKAS_GAP if gap.type == GAP else gap.type,)
                    )
                ],
            )
            for gap in unreadable
        ]
        await self._acknowledged(key, parts, Deadline(REQUEST_TIMEOUT))


def _check(request: pb.AcquireRequest) -> None:
    check_group_id(request.group_id)
    if request.member_id:
        check_member_id(request.member_id)
    if not request.topics:
        raise refused("topics", "At least one topic is needed.")
    check_topic_names("topics", request.topics)
    check_bounds("max_records", request.max_records, 0, MAX_ACQUIRE_RECORDS)
    check_bounds("max_wait_ms", request.max_wait_ms, 0, round(MAX_WAIT * 1000))


def _result(asked: Decision, result: Acknowledged, renewed_until: int) -> pb.AcknowledgeResponse.Result:
    return pb.AcknowledgeResponse.Result(
        topic=asked.topic,
        partition=asked.partition,
        offset=asked.offset,
        error_code=wire(ErrorCode(result.error_code)),
        error_message=result.error_message,
        lock_deadline_ms=renewed_until if asked.type == RENEW and not result.error_code else 0,
    )
