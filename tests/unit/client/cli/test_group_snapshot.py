"""Snapshots of a live system: partitions with findings are read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import pytest

from sharebroker.admin_model import ConfigValue, FailedEntry, FailedListing, GroupDescription, GroupOffset
from sharebroker.aio.admin import Admin
from sharebroker.cli.group_snapshot import read_snapshots
from sharebroker.inspection import LogInspection, StoredState, StoredStateRecord
from sharebroker.verification.rules import FindingKind
from sharebroker.verification.runs import OffsetOutcome, OutcomeRun
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicPartition

CHECKPOINT = StoredStateRecord(kind="checkpoint", start_offset=2)
WELL = StoredState(records=(CHECKPOINT,), live=CHECKPOINT)
ODD = StoredState(records=(CHECKPOINT,))
PLACES = [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("others", 0)]


class Changing:
    """A system that returns the states of a partition in order and repeats the last."""

    def __init__(self, **answers: list[StoredState | ErrorCode]) -> None:
        self._answers = answers
        self.inspected: list[TopicPartition] = []

    async def describe_group(self, group: str) -> GroupDescription:
        return GroupDescription(group, "Stable", 4, 4, "simple", ())

    async def group_offsets(self, _: str) -> dict[TopicPartition, GroupOffset]:
        return dict.fromkeys(PLACES, GroupOffset(2, 0, 1))

    async def group_configs(self, _: str) -> list[ConfigValue]:
        return [ConfigValue("share.delivery.count.limit", "5", True, "")]

    async def inspect_state(self, _: str, place: TopicPartition) -> StoredState:
        self.inspected.append(place)
        responses = self._answers.get(f"{place.topic}{place.partition}", [WELL])
        response = responses.pop(0) if len(responses) > 1 else responses[0]
        if isinstance(response, ErrorCode):
            raise KafkaError(response)
        return response

    async def inspect_records(
        self, _: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, LogInspection]:
        return {place: LogInspection(log_end_offset=8, next_offset=8) for place in offsets}

    async def failed_records(self, _: str, topic: str) -> FailedListing:
        entries = [FailedEntry(1, 0, 1, "rejected", 2, 9.0, "m1", "bad")] if topic == "orders" else []
        return FailedListing(tuple(entries), {})


async def test_failed_records_are_read() -> None:
    found = await read_snapshots(cast("Admin", Changing()), "billing", [], lambda *_: None)
    rejected = OutcomeRun(0, 1, OffsetOutcome.REJECTED, 2, 9.0)
    assert [list(found[place].failed) for place in PLACES] == [[], [rejected], []]


async def _kinds(system: Changing, topics: Iterable[str] = ()) -> dict[TopicPartition, list[FindingKind]]:
    def seen(done: int, total: int) -> None:
        assert 0 < done <= total

    found = await read_snapshots(cast("Admin", system), "billing", list(topics), seen)
    return {place: [finding.kind for finding in surveyed.findings] for place, surveyed in found.items()}


async def test_transient_finding_is_dropped() -> None:
    system = Changing(orders1=[ODD, WELL])
    assert await _kinds(system) == {place: [] for place in PLACES}
    assert system.inspected == [*PLACES, PLACES[1]]


async def test_persistent_finding_is_reported() -> None:
    system = Changing(orders0=[ODD], orders1=[ErrorCode.CORRUPT_MESSAGE])
    found = await _kinds(system, ["orders"])
    assert found == {PLACES[0]: [FindingKind.NOT_THE_REPLAY], PLACES[1]: [FindingKind.UNREADABLE]}
    assert len(system.inspected) == 3 * 2


async def test_failed_request_is_not_a_finding() -> None:
    with pytest.raises(KafkaError) as refused:
        await _kinds(Changing(orders0=[ErrorCode.COORDINATOR_NOT_AVAILABLE]))
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
