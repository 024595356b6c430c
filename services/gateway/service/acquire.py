"""Acquire and Acknowledge: a Consume stream's unary twins."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from libs.catalog.records import Topic
from libs.clock import now
from services.gateway.clients.deadline import Backoff, Deadline
from services.gateway.config import MAX_ACQUIRE_RECORDS, MAX_WAIT, REQUEST_TIMEOUT
from services.gateway.core.validation import (
    RENEW,
    batches_refusal,
    check_bounds,
    check_delay,
    check_group_id,
    check_member_id,
    refused,
)
from services.gateway.core.values import AckBatch, SessionKey, TopicPartition
from services.gateway.service.acquire_records import Acquisition, Answer, FetchLimits
from services.gateway.service.decode import decoded
from services.gateway.service.gateway import Gateway
from services.gateway.service.initialisation import Initialisation
from sharebroker.delivery.v1 import delivery_pb2 as delivery
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.gateway.v1 import share_pb2 as pb
from sharebroker.share_partition_leader.v1 import share_partition_leader_pb2 as leader

if TYPE_CHECKING:
    from sharebroker.share_partition_leader.v1.share_partition_leader_pb2_grpc import (
        SharePartitionLeaderServiceAsyncStub as Stub,
    )

Decision = pb.AcknowledgeRequest.Decision
Part = leader.AcknowledgeRecordsRequest.Partition
Result = leader.AcknowledgeRecordsResponse.Partition
_PATIENCE: Final = 1.0


class UnaryConsumer:
    """Serves members that have no connection of their own: their records stay theirs between calls."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._initialisation = Initialisation(gateway)
        self._turn = count()

    async def acquire(self, request: pb.AcquireRequest, deadline: Deadline) -> pb.AcquireResponse:
        """Acquire records of any partition of the topics. Raises KafkaError."""
        _check(request)
        topics = [self._gateway.topic(name) for name in dict.fromkeys(request.topics)]
        key = SessionKey(request.group_id, request.member_id or str(uuid4()))
        answers = await self._acquired(key, topics, request, deadline)
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

    async def _acquired(
        self, key: SessionKey, topics: Sequence[Topic], request: pb.AcquireRequest, deadline: Deadline
    ) -> Mapping[TopicPartition, Answer]:
        """Answers with records. A refusal may mean that the state is gone, so it is made once more."""
        wait = Deadline(min(request.max_wait_ms / 1000, deadline.left()))
        backoff = Backoff(Deadline(min(max(wait.left(), _PATIENCE), deadline.left())))
        while True:
            await asyncio.gather(*(self._initialisation.ensure(key.group_id, t, deadline) for t in topics))
            limits = FetchLimits(
                wait.left(), request.max_records or 1, mode=delivery.ACQUIRE_MODE_RECORD_LIMIT
            )
            answers = await Acquisition(self._gateway.leaders, key, limits).run(self._in_turn(topics))
            acquired = {part: answer for part, answer in answers.items() if answer.acquired}
            errors = _errors(answers)
            if acquired or not errors:
                return acquired
            for topic in topics:
                self._initialisation.forget(key.group_id, topic.topic_id)
            if not errors[0].retriable or not await backoff.pause():
                raise errors[0]

    def _in_turn(self, topics: Sequence[Topic]) -> list[TopicPartition]:
        """Every partition, another one first at each call."""
        parts = [
            TopicPartition(topic.topic_id, index) for topic in topics for index in range(topic.partitions)
        ]
        start = next(self._turn) % len(parts)
        return parts[start:] + parts[:start]

    def _part(self, index: int, asked: Decision) -> Part:
        field = f"acknowledgements[{index}]"
        check_delay(f"{field}.delay_ms", asked.delay_ms, asked.type)
        topic = self._gateway.topic(asked.topic, f"{field}.topic")
        last = asked.last_offset if asked.HasField("last_offset") else asked.offset
        problem = batches_refusal([AckBatch(asked.offset, last, (asked.type,))], renew_allowed=True)
        if problem is not None:
            raise refused(field, problem)
        batch = leader.AcknowledgeRecordsRequest.Batch(
            first_offset=asked.offset,
            last_offset=last,
            acknowledge_types=[asked.type],
            lock_token=asked.lock_token,
        )
        return Part(
            topic_id=topic.topic_id, partition=asked.partition, batches=[batch], delay_ms=asked.delay_ms
        )

    async def _acknowledged(self, key: SessionKey, parts: list[Part], deadline: Deadline) -> list[Result]:
        async def send(stub: Stub, some: list[Part], left: float) -> Sequence[Result]:
            request = leader.AcknowledgeRecordsRequest(
                group_id=key.group_id, member_id=key.member_id, partitions=some, renew_allowed=True
            )
            return (await stub.AcknowledgeRecords(request, timeout=left)).partitions

        return await self._gateway.leaders.each(parts, send, Result, deadline)

    async def _give_back(self, key: SessionKey, unreadable: Sequence[delivery.Acknowledgement]) -> None:
        parts = [
            Part(
                topic_id=gap.topic_id,
                partition=gap.partition,
                batches=[
                    leader.AcknowledgeRecordsRequest.Batch(
                        first_offset=gap.first_offset,
                        last_offset=gap.last_offset,
                        acknowledge_types=[gap.type],
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
    check_bounds("max_records", request.max_records, 0, MAX_ACQUIRE_RECORDS)
    check_bounds("max_wait_ms", request.max_wait_ms, 0, round(MAX_WAIT * 1000))


def _errors(answers: Mapping[TopicPartition, Answer]) -> list[KafkaError]:
    return [
        KafkaError(
            ErrorCode(answer.error_code),
            answer.error_message,
            metadata={"topic_id": part.topic_id, "partition": str(part.partition)},
        )
        for part, answer in answers.items()
        if answer.error_code
    ]


def _result(asked: Decision, result: Result, renewed_until: int) -> pb.AcknowledgeResponse.Result:
    return pb.AcknowledgeResponse.Result(
        topic=asked.topic,
        partition=asked.partition,
        offset=asked.offset,
        error_code=result.error_code,
        error_message=result.error_message,
        lock_deadline_ms=renewed_until if asked.type == RENEW and not result.error_code else 0,
    )
