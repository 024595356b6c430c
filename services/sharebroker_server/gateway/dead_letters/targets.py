"""Where the record of a letter is delivered again, and what is delivered."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import dead_letters_pb2 as pb
from sharebroker_protocol.records.letter_headers import MAX_HOPS
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.admin.groups import check_group
from sharebroker_server.gateway.authorization import GROUP, TOPIC
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.dead_letters import (
    LetterFacts,
    LetterRecord,
    ReadLetter,
    is_copied,
    redriven_headers,
)
from sharebroker_server.gateway.dead_letters.reading import record_at
from sharebroker_server.security.acl import AclOperation, AclResourceType

Denial = Callable[[AclOperation, AclResourceType, str], KafkaError | None]


def permitted(_: AclOperation, __: AclResourceType, ___: str) -> None:
    """Returns that the caller may do everything."""


class PlacedRecord(NamedTuple):
    """The record of a letter and its target; an empty group id: all groups receive it."""

    topic: Topic
    partition: int
    group_id: str
    record: leader.RedriveRecordsRequest.Record

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.record.key) + len(self.record.value)


class Targets:
    """Finds targets and records for one call; what it checks of a topic or group is checked once."""

    def __init__(self, gateway: Gateway, request: pb.RedriveDeadLettersRequest, denial: Denial) -> None:
        self._gateway = gateway
        self._denial = denial
        self._to_group = not request.to_source_topic and not request.to_topic
        self._to_topic = request.to_topic
        self._reset_hops = request.reset_hops
        self._checked: dict[tuple[object, ...], KafkaError | None] = {}

    async def place(self, letter: ReadLetter, deadline: Deadline) -> PlacedRecord:
        """Returns the record of a letter and its target.

        Raises:
            KafkaError: TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND,
                UNKNOWN_TOPIC_OR_PARTITION, RESOURCE_NOT_FOUND, INVALID_RECORD_STATE; that of a leader.
        """
        facts = letter.facts
        if facts.hops >= MAX_HOPS and not self._reset_hops:
            text = (
                f"The record was a dead letter {facts.hops} times; it would get no letter if it failed again."
            )
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, text)
        if self._to_group:
            await self._check_group(facts.group_id, deadline)
        topic, partition = self._target(facts)
        record = leader.RedriveRecordsRequest.Record(
            letter_offset=letter.record.offset,
            source=f"{facts.topic}/{facts.partition}/{facts.offset}",
            source_offset=facts.offset,
        )
        original = letter.record
        if not is_copied(letter):
            original = await self._original(facts, deadline)
        if original.key is not None:
            record.key = original.key
        if original.value is not None:
            record.value = original.value
        for name, value in redriven_headers(facts, original.headers, reset_hops=self._reset_hops):
            record.headers.add(key=name, value=value)
        return PlacedRecord(topic, partition, facts.group_id if self._to_group else "", record)

    def _target(self, facts: LetterFacts) -> tuple[Topic, int]:
        """Returns the partition of a letter's record. Raises KafkaError."""
        self._permit(AclOperation.WRITE, TOPIC, self._to_topic or facts.topic)
        if self._to_topic:
            topic = self._gateway.topic(self._to_topic)
            return topic, facts.partition % topic.partitions
        return self._source_topic(facts), facts.partition

    def _source_topic(self, facts: LetterFacts) -> Topic:
        topic = self._gateway.topic(facts.topic)
        if facts.partition >= topic.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"Topic {facts.topic} has partitions 0 to {topic.partitions - 1}, not {facts.partition}.",
            )
        return topic

    async def _original(self, facts: LetterFacts, deadline: Deadline) -> LetterRecord:
        """Returns the record from the source log. Raises KafkaError."""
        self._permit(AclOperation.READ, TOPIC, facts.topic)
        topic = self._source_topic(facts)
        if facts.topic_id not in ("", topic.topic_id):
            text = (
                f"The source is gone: the letter has no copy of the record, and topic {facts.topic} was "
                "deleted and created again since."
            )
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, text)
        record = await record_at(self._gateway, topic, facts.partition, facts.offset, deadline)
        if record is None:
            text = "The source is gone: the letter has no copy of the record, and the log no longer has it."
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, text)
        return record

    def _permit(self, operation: AclOperation, kind: AclResourceType, name: str) -> None:
        key = (operation, kind, name)
        if key not in self._checked:
            self._checked[key] = self._denial(*key)
        self._raise(key)

    async def _check_group(self, group_id: str, deadline: Deadline) -> None:
        self._permit(AclOperation.READ, GROUP, group_id)
        key = ("group", group_id)
        if key not in self._checked:
            self._checked[key] = await self._group_error(group_id, deadline)
        self._raise(key)

    async def _group_error(self, group_id: str, deadline: Deadline) -> KafkaError | None:
        """Returns why the group cannot be used. Raises retriable errors of its coordinator."""
        try:
            await check_group(self._gateway, group_id, deadline)
        except KafkaError as error:
            if error.retriable:
                raise
            return error
        return None

    def _raise(self, key: tuple[object, ...]) -> None:
        error = self._checked[key]
        if error is not None:
            raise error
