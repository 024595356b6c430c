"""Reads the stored state and the logs of a share group from a running cluster.

The state, the group and the record logs are read one after the other while records are consumed. A partition
with findings is therefore read again: a real violation persists, an artifact of the reading order does not.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sharebroker.inspection import LogInspection, StoredState
from sharebroker.verification.rules import Evidence, FindingKind, VerificationFinding, start_of, verify
from sharebroker.verification.runs import OffsetOutcome, OutcomeRun, RecordLog
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicPartition

if TYPE_CHECKING:
    from sharebroker.aio.admin import Admin

_ATTEMPTS: Final = 3
"""Times that a partition with findings is read."""

_CONCURRENCY: Final = 16
_LIMIT: Final = "share.delivery.count.limit"

Stored = StoredState | KafkaError


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A share-partition: the evidence (None if it is unreadable), the findings, and the failed records."""

    evidence: Evidence | None
    findings: list[VerificationFinding]
    failed: Sequence[OutcomeRun] = ()

    @property
    def well(self) -> bool:
        """Whether all findings are mere remarks."""
        return all(finding.kind.remark for finding in self.findings)


async def read_snapshots(
    admin: Admin, group: str, topics: Collection[str], on_progress: Callable[[int, int], None]
) -> dict[TopicPartition, GroupSnapshot]:
    """Returns the group's share-partitions (of `topics`, or all).

    Calls `on_progress(done, total)`. Raises KafkaError.
    """
    await admin.describe_group(group)  # raises GROUP_ID_NOT_FOUND
    known = sorted(await admin.group_offsets(group))
    if unknown := set(topics) - {place.topic for place in known}:
        text = f"Group {group} has no state in {', '.join(sorted(unknown))}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    selected = [place for place in known if not topics or place.topic in topics]
    found: dict[TopicPartition, GroupSnapshot] = {}
    for _ in range(_ATTEMPTS):
        unsure = [place for place in selected if place not in found or not found[place].well]
        if unsure:
            found |= await _read_once(admin, group, unsure, on_progress)
    failed = await _failed(admin, group, {place.topic for place in selected})
    return {place: replace(snapshot, failed=failed.get(place, ())) for place, snapshot in found.items()}


async def _failed(
    admin: Admin, group: str, topics: Iterable[str]
) -> Mapping[TopicPartition, list[OutcomeRun]]:
    """Returns the failed records of topics by partition, ascending."""
    failed = defaultdict[TopicPartition, list[OutcomeRun]](list)
    for topic in sorted(topics):
        for entry in (await admin.failed_records(group, topic)).entries:
            outcome = OffsetOutcome(entry.disposition)
            run = OutcomeRun(entry.first_offset, entry.last_offset, outcome, entry.delivery_count, entry.time)
            failed[TopicPartition(topic, entry.partition)].append(run)
    return failed


async def _read_once(
    admin: Admin, group: str, places: Collection[TopicPartition], on_progress: Callable[[int, int], None]
) -> dict[TopicPartition, GroupSnapshot]:
    """Reads and verifies once.

    The state is read first, so that the group epoch and the logs read later are at least as new.
    """
    stored = await _stored(admin, group, places, on_progress)
    epoch = (await admin.describe_group(group)).group_epoch
    limits = {config.name: config.value for config in await admin.group_configs(group)}
    logs = await _logs(admin, group, {place: _start(state) for place, state in stored.items()})
    limit = int(limits[_LIMIT] or 0)
    return {place: _verified(stored[place], logs[place], epoch, limit) for place in places}


def _start(stored: Stored) -> int:
    """Returns the offset to read the record log from; -1 if it is not needed."""
    return -1 if isinstance(stored, KafkaError) else start_of(stored)


async def _logs(
    admin: Admin, group: str, starts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, RecordLog]:
    """Reads the record logs from their start offsets to their current end."""
    remaining = dict(starts)
    logs: dict[TopicPartition, RecordLog] = {}
    while remaining:
        for place, part in (await admin.inspect_records(group, remaining)).items():
            logs[place] = _extended(logs.get(place), part)
            remaining[place] = part.next_offset
        remaining = {place: offset for place, offset in remaining.items() if offset < logs[place].end}
    return logs


def _extended(on_progress: RecordLog | None, part: LogInspection) -> RecordLog:
    """Adds a further part of the log; its bounds and held records are those of the first part."""
    if on_progress is None:
        on_progress = RecordLog(
            part.log_start_offset, part.log_end_offset, part.in_delivery, for_others=part.for_others
        )
    return replace(
        on_progress,
        markers=(*on_progress.markers, *part.markers),
        missing=(*on_progress.missing, *part.missing),
    )


def _verified(stored: Stored, log: RecordLog, group_epoch: int, limit: int) -> GroupSnapshot:
    if isinstance(stored, KafkaError):
        return GroupSnapshot(None, [VerificationFinding(FindingKind.UNREADABLE, stored.message)])
    evidence = Evidence(stored, log, group_epoch, limit)
    return GroupSnapshot(evidence, verify(evidence))


async def _stored(
    admin: Admin, group: str, places: Collection[TopicPartition], on_progress: Callable[[int, int], None]
) -> Mapping[TopicPartition, Stored]:
    slots, states = asyncio.Semaphore(_CONCURRENCY), dict[TopicPartition, Stored]()

    async def read_state(place: TopicPartition) -> None:
        async with slots:
            states[place] = await _read_state(admin, group, place)
            on_progress(len(states), len(places))

    try:
        async with asyncio.TaskGroup() as requests:
            for place in places:
                requests.create_task(read_state(place))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return states


async def _read_state(admin: Admin, group: str, place: TopicPartition) -> Stored:
    try:
        return await admin.inspect_state(group, place)
    except KafkaError as error:
        if error.code is ErrorCode.CORRUPT_MESSAGE:
            return error
        raise
