"""Sends the records of letters to the leaders of their targets, and collects the results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import dead_letters_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.dead_letters import ReadLetter
from sharebroker_server.gateway.dead_letters.listing import message_of
from sharebroker_server.gateway.dead_letters.targets import PlacedRecord, Targets
from sharebroker_server.rpc.errors import refusal
from sharebroker_server.security import audit

MOST_BYTES: Final = 4 << 20
"""Bytes of keys and values that are sent at once, and one letter beyond."""

Result = pb.RedriveDeadLettersResponse.Result
_Place = tuple[int, int]
"""The partition and the offset of a letter."""


class RedriveSender:
    """One call: places its letters, and sends them by group and partition."""

    def __init__(
        self, gateway: Gateway, request: pb.RedriveDeadLettersRequest, topic: Topic, targets: Targets
    ) -> None:
        self._gateway = gateway
        self._request = request
        self._topic = topic
        self._targets = targets
        self._results: dict[_Place, Result] = {}

    async def run(self, letters: Sequence[ReadLetter], deadline: Deadline) -> list[Result]:
        """Returns the result of each letter, in order."""
        placed = defaultdict[tuple[str, int], list[PlacedRecord]](list)
        size = 0
        for letter in letters:
            try:
                one = await self._targets.place(letter, deadline)
            except KafkaError as error:
                self._results[letter.record[:2]] = Result(copy_offset=-1, **refusal(error))
                continue
            size += one.size
            placed[one.group_id, letter.record.partition].append(one)
            if size >= MOST_BYTES:
                await self._send_all(placed, deadline)
                size = 0
        await self._send_all(placed, deadline)
        for letter in letters:
            self._results[letter.record[:2]].letter.CopyFrom(message_of(letter))
        return [self._results[letter.record[:2]] for letter in letters]

    async def _send_all(self, placed: dict[tuple[str, int], list[PlacedRecord]], deadline: Deadline) -> None:
        for (group_id, partition), some in placed.items():
            await self._send(group_id, partition, some, deadline)
        placed.clear()

    async def _send(
        self, group_id: str, partition: int, placed: Sequence[PlacedRecord], deadline: Deadline
    ) -> None:
        """Sends the records of letters of one partition; adds their results."""
        request = leader.RedriveRecordsRequest(
            group_id=group_id,
            request_id=f"{self._topic.topic_id}/{partition}/{self._request.request_id}",
            validate_only=self._request.validate_only,
        )
        by_target = defaultdict[tuple[str, int], list[PlacedRecord]](list)
        for one in placed:
            by_target[one.topic.topic_id, one.partition].append(one)
        for (topic_id, number), some in by_target.items():
            request.partitions.add(topic_id=topic_id, partition=number, records=[one.record for one in some])
        parts = await self._forward(request, deadline)
        for part, some in zip(parts, by_target.values(), strict=True):
            self._add(partition, part, some)

    async def _forward(
        self, request: leader.RedriveRecordsRequest, deadline: Deadline
    ) -> Sequence[leader.RedriveRecordsResponse.Partition]:
        call = self._gateway.leaders.forward(
            lambda stub: stub.RedriveRecords, request, leader.RedriveRecordsResponse, deadline
        )
        if request.validate_only:
            return (await call).partitions
        with audit.changing("RedriveDeadLetters", "TOPIC", [self._topic.name]):
            return (await call).partitions

    def _add(
        self, partition: int, part: leader.RedriveRecordsResponse.Partition, placed: Sequence[PlacedRecord]
    ) -> None:
        """Adds the results of the letters of a partition that a leader returned for a target."""
        target: dict[str, Any] = {
            "target_topic": placed[0].topic.name,
            "target_partition": part.partition,
        }
        if part.error_code:
            error = KafkaError(ErrorCode(part.error_code), part.error_message)
            for one in placed:
                failed = Result(copy_offset=-1, **target, **refusal(error))
                self._results[partition, one.record.letter_offset] = failed
        for result in part.results:
            self._results[partition, result.letter_offset] = Result(
                copy_offset=-1 if result.error_code else result.copy_offset,
                error_code=result.error_code,
                error_message=result.error_message,
                **target,
            )
        if not self._request.validate_only:
            self._audit(partition, part, target)

    def _audit(
        self, partition: int, part: leader.RedriveRecordsResponse.Partition, target: dict[str, Any]
    ) -> None:
        appended = [result.letter_offset for result in part.results if not result.error_code]
        failed = part.error_code or next((one.error_code for one in part.results if one.error_code), 0)
        if appended:
            details = {**target, "partition": partition, "letters": appended}
            audit.change("RedriveDeadLetters", "TOPIC", self._topic.name, 0, **details)
        if failed:
            audit.change("RedriveDeadLetters", "TOPIC", self._topic.name, failed)
