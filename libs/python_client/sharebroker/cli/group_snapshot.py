"""What the logs of a live system say of a group; asked again where something looks wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from sharebroker.aio.admin import Admin
from sharebroker.verification.offset_outcomes import RecordLog
from sharebroker.verification.rules import Evidence, Finding, Kind, start_of, verify
from sharebroker.verification.runs import Span
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicPartition
from sharebroker_protocol.share_coordinator.v1.share_coordinator_pb2 import InspectShareGroupStateResponse
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2 import InspectRecordsResponse

_LOOKS: Final = 3
"""What is wrong stays so; what only looked wrong, because a look takes time, does not."""

_AT_ONCE: Final = 16
_LIMIT: Final = "share.delivery.count.limit"

Stored = InspectShareGroupStateResponse | KafkaError


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A share-partition: what was read (None: it cannot be read) and what is wrong with it."""

    evidence: Evidence | None
    findings: list[Finding]

    @property
    def well(self) -> bool:
        """Whether there is nothing but remarks."""
        return all(finding.kind.remark for finding in self.findings)


async def survey(
    admin: Admin, group: str, topics: Collection[str], seen: Callable[[int, int], None]
) -> dict[TopicPartition, GroupSnapshot]:
    """The group's share-partitions (of `topics`, or all). Calls `seen(done, total)`. Raises KafkaError."""
    await admin.describe_group(group)  # refuses one that there is not
    known = sorted(await admin.group_offsets(group))
    if unknown := set(topics) - {place.topic for place in known}:
        text = f"Group {group} has nothing in {', '.join(sorted(unknown))}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    wanted = [place for place in known if not topics or place.topic in topics]
    found: dict[TopicPartition, GroupSnapshot] = {}
    for _ in range(_LOOKS):
        again = [place for place in wanted if place not in found or not found[place].well]
        if again:
            found |= await _look(admin, group, again, seen)
    return found


async def _look(
    admin: Admin, group: str, places: Collection[TopicPartition], seen: Callable[[int, int], None]
) -> dict[TopicPartition, GroupSnapshot]:
    """The state first: what it speaks of must be in the record log by then, and its epoch in the group."""
    stored = await _stored(admin, group, places, seen)
    epoch = (await admin.describe_group(group)).group_epoch
    limits = {config.name: config.value for config in await admin.group_configs(group)}
    logs = await _logs(admin, group, {place: _start(state) for place, state in stored.items()})
    limit = int(limits[_LIMIT] or 0)
    return {place: _judged(stored[place], logs[place], epoch, limit) for place in places}


def _start(stored: Stored) -> int:
    """Where to read the record log from; -1: no matter."""
    return -1 if isinstance(stored, KafkaError) else start_of(stored)


async def _logs(
    admin: Admin, group: str, starts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, RecordLog]:
    """The record logs as they end now, each read from its start on."""
    left = dict(starts)
    logs: dict[TopicPartition, RecordLog] = {}
    while left:
        for place, part in (await admin.inspect_records(group, left)).items():
            logs[place] = _extended(logs.get(place), part)
            left[place] = part.next_offset
        left = {place: offset for place, offset in left.items() if offset < logs[place].end}
    return logs


def _extended(seen: RecordLog | None, part: InspectRecordsResponse.Partition) -> RecordLog:
    """With what a further part of the log shows; its bounds and who holds what are of the first look."""
    if seen is None:
        seen = RecordLog(part.log_start_offset, part.log_end_offset, _spans(part.in_delivery))
    markers, missing = (*seen.markers, *_spans(part.markers)), (*seen.missing, *_spans(part.missing))
    return replace(seen, markers=markers, missing=missing)


def _spans(ranges: Iterable[InspectRecordsResponse.OffsetRange]) -> tuple[Span, ...]:
    return tuple(Span(each.first_offset, each.last_offset) for each in ranges)


def _judged(stored: Stored, log: RecordLog, group_epoch: int, limit: int) -> GroupSnapshot:
    if isinstance(stored, KafkaError):
        return GroupSnapshot(None, [Finding(Kind.UNREADABLE, stored.message)])
    evidence = Evidence(stored, log, group_epoch, limit)
    return GroupSnapshot(evidence, verify(evidence))


async def _stored(
    admin: Admin, group: str, places: Collection[TopicPartition], seen: Callable[[int, int], None]
) -> Mapping[TopicPartition, Stored]:
    slots, answers = asyncio.Semaphore(_AT_ONCE), dict[TopicPartition, Stored]()

    async def ask(place: TopicPartition) -> None:
        async with slots:
            answers[place] = await _inspected(admin, group, place)
            seen(len(answers), len(places))

    try:
        async with asyncio.TaskGroup() as asking:
            for place in places:
                asking.create_task(ask(place))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return answers


async def _inspected(admin: Admin, group: str, place: TopicPartition) -> Stored:
    try:
        return await admin.inspect_state(group, place)
    except KafkaError as error:
        if error.code is ErrorCode.CORRUPT_MESSAGE:
            return error
        raise
