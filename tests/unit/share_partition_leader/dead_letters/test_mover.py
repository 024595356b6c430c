"""The mover writes the letters of archiving records once, whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import Disposition, SharePartitionKey
from sharebroker_server.catalog.records import TopicRecord
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.leader_calls.values import LettersCall, LettersResult
from sharebroker_server.record_log.core.producers import Marker
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.share_partition_leader.core.events import (
    ArchivingRecords,
    LettersWritten,
    SharePartitionSettings,
)
from sharebroker_server.share_partition_leader.core.in_flight import InFlight
from sharebroker_server.share_partition_leader.core.letter_note import union
from sharebroker_server.share_partition_leader.dead_letters import letters as making
from sharebroker_server.share_partition_leader.dead_letters.counts import LetterCounts
from sharebroker_server.share_partition_leader.dead_letters.mover import DeadLetterMover
from sharebroker_server.share_partition_leader.dead_letters.target import (
    DeadLetterTarget,
    DeadLetterTopic,
    FailurePolicy,
)
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch
from tests.unit.share_partition_leader.dead_letters.settings import DisabledLetters
from tests.unit.share_partition_leader.harness import GROUP, NAME, TOPIC, Harness
from tests.unit.share_partition_leader.log.test_redrive import record, redriven

OWN_KEY = SharePartitionKey(GROUP, TOPIC, 0)
DLQ, DLQ_NAME = "D" * 22, "dlq.g"


class Settings(DisabledLetters):
    """Settings of one group; the topics are those in `topics`."""

    def __init__(self) -> None:
        self.groups = DeadLetterTarget(DLQ_NAME, copy=True)
        self.topics = {DLQ_NAME: DeadLetterTopic(DLQ, 2, True, 1_000_000)}
        self.created: list[str] = []
        self.auto_create = False

    def target(self, group_id: str) -> DeadLetterTarget:
        return self.groups

    def topic(self, name: str) -> DeadLetterTopic | None:
        return self.topics.get(name)

    async def create(self, name: str) -> None:
        self.created.append(name)
        self.topics[name] = DeadLetterTopic(DLQ, 2, True, 1_000_000)


@dataclass
class Core:
    """The archiving records of a share-partition; `late` are archived, but not durably."""

    runs: list[ArchivingRecords] = field(default_factory=list)
    late: list[tuple[int, int]] = field(default_factory=list)
    failed_under: tuple[int, int] = (1, 3)
    in_flight: InFlight = field(default_factory=lambda: InFlight(0))
    settings: SharePartitionSettings = field(default_factory=SharePartitionSettings)

    def archiving(self, limit: int) -> Sequence[ArchivingRecords]:
        found = []
        for run in self.runs:
            if limit > 0:
                found.append(run._replace(last=min(run.last, run.first + limit - 1)))
                limit -= run.last - run.first + 1
        return found

    def archiving_ranges(self) -> Sequence[tuple[int, int]]:
        return union(self.late, [(run.first, run.last) for run in self.runs])


@dataclass(eq=False)
class Partition:
    """A share-partition with archiving records."""

    log: PartitionLog
    core: Core
    key: SharePartitionKey = OWN_KEY
    topic: str = NAME
    retired: bool = False

    def handle(self, event: LettersWritten) -> None:
        written = {offset for first, last in event.ranges for offset in range(first, last + 1)}
        self.core.late += event.ranges
        runs, self.core.runs = self.core.runs, []
        for run in runs:
            for offset in range(run.first, run.last + 1):
                if offset not in written:
                    self.core.runs.append(run._replace(first=offset, last=offset))


def failed(first: int, last: int, disposition: Disposition = Disposition.REJECTED) -> ArchivingRecords:
    return ArchivingRecords(first, last, 2, disposition, "bad", 1_700_000_000_000, "m1")


class Route:
    """The router and the leader of the dead letter topic; `faults` are raised before or after an append."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self.faults: list[tuple[bool, KafkaError]] = []
        self.calls = self
        self.sent: list[LettersCall] = []
        self.forgotten: list[tuple[str, int]] = []

    async def leader(self, topic_id: str, partition: int) -> Route:
        return self

    def forget_leader(self, topic_id: str, partition: int) -> None:
        self.forgotten.append((topic_id, partition))

    async def append_letters(self, call: LettersCall, timeout: float) -> LettersResult:
        self.sent.append(call)
        written, error = self.faults.pop(0) if self.faults else (True, None)
        result = await self._harness.local.append_letters(call, timeout) if written else LettersResult()
        if error is not None and error.code is ErrorCode.REQUEST_TIMED_OUT:
            raise error
        return result if error is None else LettersResult(error.code, error.message)


class LetterFixture:
    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.route = Route(harness)
        self.settings = Settings()
        self.counts = LetterCounts(lambda: 10)
        self.mover = DeadLetterMover(
            cast("Any", self.route), self.settings, self.counts, lambda: 0.5, harness.leadership.clients
        )

    async def source(self, *runs: ArchivingRecords, **more: Any) -> Partition:
        log = (await self.harness.leadership.led(TOPIC, 0)).own_log
        return Partition(log, Core(list(runs)), **more)

    async def moved(self, partition: Partition, timeout: float = 1000.0) -> None:
        self.mover.add(partition)
        await eventually(lambda: not self.mover.partitions(), timeout=timeout)

    async def letters(self, partition: int = 0) -> list[Any]:
        log = (await self.harness.leadership.led(DLQ, partition)).own_log
        found: list[Any] = []
        offset = log.log_start_offset
        while batches := await log.read(offset, 1 << 20):
            for each in batches:
                found += DefaultRecordBatch(each.data)
            offset = batches[-1].last_offset + 1
        return found

    async def offsets(self, partition: int = 0) -> list[int]:
        return [int(dict(each.headers)["__dlq.errors.offset"]) for each in await self.letters(partition)]

    def samples(self, name: str) -> dict[str, float]:
        for family in self.counts.families():
            if family.name == f"sharebroker_share_group_{name}":
                return {"/".join(sample.labels[5::2]): sample.value for sample in family.samples}
        raise KeyError(name)


@pytest.fixture
async def fixture(harness: Harness) -> AsyncIterator[LetterFixture]:
    await harness.append_to_catalog(TopicRecord(Topic(DLQ, DLQ_NAME, 2)))
    await harness.publish(10)
    made = LetterFixture(harness)
    yield made
    await made.mover.stop()


async def test_letters_are_written_in_offset_order(fixture: LetterFixture) -> None:
    partition = await fixture.source(failed(1, 3), failed(7, 7, Disposition.EXHAUSTED))
    await fixture.moved(partition)
    assert await fixture.offsets() == [1, 2, 3, 7]
    assert partition.core.late == [(1, 3), (7, 7)]
    (first, *_, last) = await fixture.letters()
    assert (first.value, dict(last.headers)["__dlq.errors.disposition"]) == (
        b"x" * 10,
        b"MAX_DELIVERY_ATTEMPTS_REACHED",
    )
    assert fixture.samples("dead_letters_total") == {"rejected": 3, "exhausted": 1, "expired": 0}


async def test_the_partition_is_that_of_the_source_modulo_their_number(fixture: LetterFixture) -> None:
    await fixture.moved(await fixture.source(failed(1, 1), key=SharePartitionKey(GROUP, TOPIC, 5)))
    assert (await fixture.offsets(0), await fixture.offsets(1)) == ([], [1])


async def test_each_portion_lists_the_offsets_that_may_be_sent_again(fixture: LetterFixture) -> None:
    await fixture.harness.publish(2_000)
    await fixture.moved(await fixture.source(failed(0, 1_499)))
    assert [len(call.source_offsets) for call in fixture.route.sent] == [1_000, 500]
    assert [call.still_archiving for call in fixture.route.sent] == [((0, 1_499),)] * 2
    assert await fixture.offsets() == list(range(1_500))


async def test_a_lost_response_writes_no_letter_twice(fixture: LetterFixture) -> None:
    fixture.route.faults = [(True, KafkaError(ErrorCode.REQUEST_TIMED_OUT, "lost"))] * 3
    await fixture.moved(await fixture.source(failed(1, 3)))
    assert await fixture.offsets() == [1, 2, 3]
    assert fixture.samples("dead_letter_append_failures_total") == {"": 3}


async def test_a_next_leader_writes_no_letter_twice(fixture: LetterFixture) -> None:
    partition = await fixture.source(failed(1, 3))
    await fixture.moved(partition)
    successor = await fixture.source(failed(1, 5))
    successor.core.failed_under = (1, 4)
    await fixture.moved(successor)
    assert await fixture.offsets() == [1, 2, 3, 4, 5]


async def test_a_letter_of_unknown_outcome_stays_at_its_partition(fixture: LetterFixture) -> None:
    fixture.route.faults = [(True, KafkaError(ErrorCode.REQUEST_TIMED_OUT, "lost"))]
    partition = await fixture.source(failed(1, 1), key=SharePartitionKey(GROUP, TOPIC, 1))
    fixture.mover.add(partition)
    await eventually(lambda: len(fixture.route.sent) == 1)
    fixture.settings.topics[DLQ_NAME] = DeadLetterTopic(DLQ, 3, True, 1_000_000)
    await eventually(lambda: not fixture.mover.partitions(), timeout=1000)
    assert [call.partition for call in fixture.route.sent] == [1, 1]


async def test_letters_are_written_to_a_topic_that_was_created_again(fixture: LetterFixture) -> None:
    """The letters in the deleted topic are gone, also those whose response was lost."""
    fixture.route.faults = [(True, KafkaError(ErrorCode.REQUEST_TIMED_OUT, "lost"))]
    partition = await fixture.source(failed(1, 2), key=SharePartitionKey(GROUP, TOPIC, 1))
    fixture.mover.add(partition)
    await eventually(lambda: len(fixture.route.sent) == 1)
    successor = "E" * 22
    await fixture.harness.append_to_catalog(TopicRecord(Topic(successor, "dlq.again", 1)))
    fixture.settings.topics[DLQ_NAME] = DeadLetterTopic(successor, 1, True, 1_000_000)
    await eventually(lambda: not fixture.mover.partitions(), timeout=1000)
    assert [(call.topic_id, call.partition) for call in fixture.route.sent] == [(DLQ, 1), (successor, 0)]
    log = (await fixture.harness.leadership.led(successor, 0)).own_log
    (stored,) = await log.read(0, 1 << 20)
    assert len(list(DefaultRecordBatch(stored.data))) == 2


async def test_held_letters_are_written_once_the_topic_exists(fixture: LetterFixture) -> None:
    topic = fixture.settings.topics.pop(DLQ_NAME)
    partition = await fixture.source(failed(1, 3))
    clock = asyncio.get_running_loop().time
    with capture_logs() as logs:
        fixture.mover.add(partition)
        until = clock() + 600
        await eventually(lambda: clock() > until, timeout=1000)
        assert fixture.mover.partitions() == [partition]
        fixture.settings.topics[DLQ_NAME] = topic
        await eventually(lambda: not fixture.mover.partitions(), timeout=1000)
    assert await fixture.offsets() == [1, 2, 3]
    assert [log["event"] for log in logs] == ["dead letters are held", "dead letters are written again"]


async def test_held_letters_follow_a_change_of_the_groups_settings(fixture: LetterFixture) -> None:
    fixture.settings.topics.clear()
    with capture_logs() as logs:
        fixture.mover.add(await fixture.source(failed(1, 2)))
        await eventually(lambda: logs)
    other = "E" * 22
    await fixture.harness.append_to_catalog(TopicRecord(Topic(other, "dlq.other", 1)))
    fixture.settings.topics["dlq.other"] = DeadLetterTopic(other, 1, True, 1_000_000)
    fixture.settings.groups = DeadLetterTarget("dlq.other", copy=False)
    await eventually(lambda: not fixture.mover.partitions(), timeout=1000)
    log = (await fixture.harness.leadership.led(other, 0)).own_log
    (stored,) = await log.read(0, 1 << 20)
    letters = [(letter.value, dict(letter.headers)) for letter in DefaultRecordBatch(stored.data)]
    found = [
        (headers["__dlq.errors.offset"], headers["__dlq.errors.copy"], value) for value, headers in letters
    ]
    assert found == [(b"1", b"off", None), (b"2", b"off", None)]


async def test_the_policy_archive_gives_up_as_kafka_does(fixture: LetterFixture) -> None:
    fixture.settings.groups = DeadLetterTarget("other", policy=FailurePolicy.ARCHIVE)
    partition = await fixture.source(failed(1, 3))
    with capture_logs() as logs:
        await fixture.moved(partition)
    assert await fixture.offsets() == []
    assert partition.core.late == [(1, 3)]
    assert logs[0]["event"] == "Failed to write to DLQ, proceeding to ARCHIVED regardless."
    assert fixture.samples("dead_letters_skipped_total")["failed"] == 3


async def test_the_policy_archive_makes_five_attempts(fixture: LetterFixture) -> None:
    fixture.settings.groups = DeadLetterTarget(DLQ_NAME, policy=FailurePolicy.ARCHIVE)
    for attempts, found in ((4, [1]), (5, [1])):
        fixture.route.faults = [(False, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved"))] * attempts
        await fixture.moved(await fixture.source(failed(attempts - 3, attempts - 3)))
        assert await fixture.offsets() == found
    assert fixture.route.forgotten == [(DLQ, 0)] * 9


async def test_a_missing_topic_is_created(fixture: LetterFixture) -> None:
    del fixture.settings.topics[DLQ_NAME]
    fixture.settings.auto_create = True
    await fixture.moved(await fixture.source(failed(1, 1)))
    assert (fixture.settings.created, await fixture.offsets()) == ([DLQ_NAME], [1])


async def test_markers_get_no_letter(fixture: LetterFixture) -> None:
    log = (await fixture.harness.leadership.led(TOPIC, 0)).own_log
    await log.end_transaction(Marker(7, 0, 0, commit=True))
    partition = await fixture.source(failed(9, 10))
    await fixture.moved(partition)
    assert (await fixture.offsets(), partition.core.late) == ([9], [(9, 10)])
    assert fixture.samples("dead_letters_skipped_total")["marker"] == 1


async def test_a_topic_that_is_its_own_source_gets_no_letters(fixture: LetterFixture) -> None:
    fixture.settings.topics[DLQ_NAME] = DeadLetterTopic(TOPIC, 1, True, 1_000_000)
    await fixture.moved(await fixture.source(failed(1, 2)))
    assert fixture.route.sent == []
    assert fixture.samples("dead_letters_skipped_total")["own_topic"] == 2


async def test_letters_of_letters_are_bounded(fixture: LetterFixture) -> None:
    fixture.settings.groups = DeadLetterTarget(DLQ_NAME)
    fixture.settings.topics[NAME] = DeadLetterTopic(TOPIC, 1, True, 1_000_000)
    for hops in (2, 3):
        header = ("__dlq.errors.hops", str(hops).encode())
        letter = making.Letter(None, b"v", [header], [])
        await fixture.harness.publish_bytes(making.build_batch([letter], 1_700_000_000_000, 1_000_000)[0])
    await fixture.moved(await fixture.source(failed(10, 11)))
    (letter_of_letter,) = await fixture.letters()
    assert dict(letter_of_letter.headers)["__dlq.errors.hops"] == b"3"
    assert fixture.samples("dead_letters_skipped_total")["hops"] == 1


async def test_a_redriven_record_keeps_hops_and_origin_without_copies(fixture: LetterFixture) -> None:
    fixture.settings.groups = DeadLetterTarget(DLQ_NAME, copy=False)
    again = record(0)
    again.headers.add(key="__dlq.errors.hops", value=b"2")
    again.headers.add(key="__dlq.errors.origin", value=b"orders/0/4711")
    most = record(1)
    most.headers.add(key="__dlq.errors.hops", value=b"3")
    await redriven(fixture.harness, [again, most])
    await fixture.moved(await fixture.source(failed(9, 11)))
    first, second = [dict(letter.headers) for letter in await fixture.letters()]
    assert (first["__dlq.errors.hops"], first["__dlq.errors.offset"]) == (b"1", b"9")
    assert (second["__dlq.errors.hops"], second["__dlq.errors.origin"]) == (b"3", b"orders/0/4711")
    assert second["__dlq.errors.copy"] == b"off"
    assert fixture.samples("dead_letters_skipped_total")["hops"] == 1


async def test_a_topic_without_leader_delays_no_other_share_partition(fixture: LetterFixture) -> None:
    blocked = [await fixture.source(failed(1, 1)) for _ in range(20)]
    fixture.route.faults = [(False, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, ""))] * 20
    for partition in blocked:
        fixture.mover.add(partition)
    other = await fixture.source(failed(5, 5), key=SharePartitionKey("h", TOPIC, 0))
    fixture.mover.add(other)
    await eventually(lambda: not other.core.runs)
    assert all(partition.core.runs for partition in blocked)


async def test_a_retired_share_partition_is_dropped(fixture: LetterFixture) -> None:
    partition = await fixture.source(failed(1, 1), retired=True)
    await fixture.moved(partition)
    assert fixture.route.sent == []


async def test_an_unexpected_error_is_retried(
    fixture: LetterFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = await fixture.source(failed(1, 1))
    errors = [RuntimeError("bug")]
    original = fixture.settings.target

    def target(group_id: str) -> DeadLetterTarget:
        if errors:
            raise errors.pop()
        return original(group_id)

    monkeypatch.setattr(fixture.settings, "target", target)
    await fixture.moved(partition)
    assert await fixture.offsets() == [1]


async def test_records_of_a_large_batch_are_moved_in_portions(fixture: LetterFixture) -> None:
    base = await fixture.harness.publish_bytes(batch(3_000, 1))
    await fixture.moved(await fixture.source(failed(base, base + 2_999)))
    assert await fixture.offsets() == list(range(base, base + 3_000))


async def test_the_age_of_the_first_archiving_record_is_reported(fixture: LetterFixture) -> None:
    fixture.settings.topics.clear()
    fixture.counts.archiving = fixture.mover.partitions
    fixture.mover.add(await fixture.source(failed(1, 1)))
    await asyncio.sleep(0)
    (age,) = fixture.samples("archiving_oldest_seconds").values()
    assert age > 0


async def test_nothing_is_sent_after_the_stop(fixture: LetterFixture) -> None:
    await fixture.mover.stop()
    fixture.mover.add(await fixture.source(failed(1, 1)))
    assert fixture.mover.partitions() == []
