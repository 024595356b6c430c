"""State of share groups in a partition's log: written in its groups, hidden from readers, never trimmed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from copy import deepcopy
from typing import Any

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.batch import StoredBatch
from sharebroker_server.record_log.core.log_state import LogState, MemoryLimits
from sharebroker_server.record_log.core.producers import Marker
from sharebroker_server.record_log.core.retention import Retention
from sharebroker_server.record_log.core.share_control import SHARE_CHECKPOINT, SHARE_DELTA, ControlRecord
from sharebroker_server.record_log.core.share_index import CHECKPOINT_SLOT, IndexedRecord
from sharebroker_server.record_log.lifecycle import LogPhase
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.record_log.record_validation import LogSettings
from sharebroker_server.stream_log.port import LogOutcomeUnknown
from tests.testkit.memory.stream_log import Fault
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch
from tests.unit.record_log.harness import NAME, NOW, Harness, code_of, offsets, settled, until_open

FAR = 1 << 30
SMALL = LogSettings(limits=MemoryLimits(hot_cache_bytes=1, segment_bytes=300))
"""The hot cache has one batch, and a segment a few."""

CLOSED = LogSettings(limits=MemoryLimits(hot_cache_bytes=1, segment_bytes=1))
"""Each batch is a segment, so that no batch is read when the log is opened."""


def checkpoint(group_id: str = "g", value: bytes = b"c", *, deleted: bool = False) -> IndexedRecord:
    control = ControlRecord(SHARE_CHECKPOINT, int(NOW * 1000), value)
    return IndexedRecord(control, group_id, CHECKPOINT_SLOT, deleted)


def delta(slot: int, group_id: str = "g", value: bytes = b"d") -> IndexedRecord:
    return IndexedRecord(ControlRecord(SHARE_DELTA, int(NOW * 1000), value), group_id, slot)


@pytest.fixture
def harness() -> Harness:
    return Harness()


@pytest.fixture
async def log(harness: Harness) -> AsyncIterator[PartitionLog]:
    log = await harness.open()
    yield log
    await log.close()


async def state_of(log: PartitionLog) -> list[tuple[int, bytes]]:
    return [(offset, record.value) for offset, record in await log.state_records()]


async def mixed(log: PartitionLog) -> None:
    """Offsets 0 to 2 and 5 to 7 are records; 3, 4 and 8 to 10 state."""
    await log.append(batch(3))
    await log.append_state([checkpoint(), checkpoint("h")])
    await log.append(batch(3))
    await log.append_state([delta(0)])
    await log.append_state([delta(0, "h"), delta(1)])


def ends(log: PartitionLog) -> tuple[int, int, int]:
    return log.records_end_offset, log.last_stable_offset, log.log_end_offset


async def test_readers_receive_records_only_and_their_end(log: PartitionLog) -> None:
    await mixed(log)
    assert ends(log) == (8, 8, 11)
    assert offsets(await log.read(0, FAR)) == [(0, 2), (5, 7)]
    assert offsets(await log.read(3, FAR)) == [(5, 7)]
    assert offsets(log.read_hot(8, FAR)) == []
    assert offsets(await log.read(11, FAR)) == []
    await log.append(batch(1))
    assert ends(log) == (12, 12, 12)
    assert offsets(await log.read(8, 1)) == [(11, 11)]


async def test_batches_of_records_keep_their_bytes_between_control_batches(log: PartitionLog) -> None:
    await mixed(log)
    both = await log.read(0, FAR)
    assert all(found.data[16:] == batch(3)[16:] for found in both)


@pytest.mark.parametrize("settings", [None, SMALL])
async def test_an_opened_log_has_the_same_state_and_ends(
    harness: Harness, settings: LogSettings | None
) -> None:
    log = await harness.open(settings)
    await mixed(log)
    expected = [(3, b"c"), (4, b"c"), (8, b"d"), (9, b"d"), (10, b"d")]
    assert await state_of(log) == expected
    again = await harness.open(settings)
    assert await state_of(again) == expected
    assert ends(again) == ends(log) == (8, 8, 11)
    assert offsets(await again.read(0, FAR)) == [(0, 2), (5, 7)]
    assert offsets(await again.read(0, 1)) == [(0, 2)]
    assert offsets(await again.read(3, 1)) == [(5, 7)]


async def test_an_opened_log_that_ends_with_records_hides_none(harness: Harness) -> None:
    log = await harness.open(SMALL)
    await mixed(log)
    await log.append(batch(3))
    assert ends(await harness.open(SMALL)) == ends(log) == (14, 14, 14)


async def test_state_behind_the_hot_cache_alone_is_read_over(harness: Harness) -> None:
    log = await harness.open(SMALL)
    await log.append_state([checkpoint()])
    for slot in range(5):
        await log.append_state([delta(slot)])
    await log.append(batch(1))
    await log.append_state([delta(5)])
    assert offsets(await log.read(0, 1)) == [(6, 6)]


async def test_a_checkpoint_makes_earlier_records_of_its_group_redundant(log: PartitionLog) -> None:
    await mixed(log)
    await log.append_state([checkpoint(value=b"new")])
    assert await state_of(log) == [(4, b"c"), (9, b"d"), (11, b"new")]
    assert log.transactions.share.earliest() == 4


async def test_state_and_records_share_a_write(harness: Harness, log: PartitionLog) -> None:
    await log.append(batch(1))
    harness.store.appends.clear()
    harness.store.hold()
    first = asyncio.create_task(log.append(batch(1)))
    await settled()
    waiting = [
        asyncio.create_task(log.append_state([checkpoint()])),
        asyncio.create_task(log.append(batch(2))),
        asyncio.create_task(log.append_state([delta(0)])),
    ]
    await settled()
    harness.store.release()
    found = await asyncio.gather(first, *waiting)
    assert [(each.base_offset, each.last_offset) for each in found] == [(1, 1), (2, 2), (3, 4), (5, 5)]
    assert harness.store.appends == [(NAME, 1), (NAME, 3)]
    assert ends(log) == (5, 5, 6)
    assert ends(await harness.open()) == (5, 5, 6)


async def test_state_wakes_no_reader(log: PartitionLog) -> None:
    woken: list[int] = []
    log.on_append.append(lambda: woken.append(log.log_end_offset))
    await log.append_state([checkpoint()])
    assert woken == []
    await log.append(batch(1))
    assert woken == [2]


async def test_an_open_transaction_does_not_hold_state_back(harness: Harness, log: PartitionLog) -> None:
    await log.end_transaction(Marker(7, 0, 0, commit=True))
    await log.append_state([checkpoint()])
    assert ends(log) == (1, 1, 2)
    assert offsets(await log.read(0, FAR)) == [(0, 0)]


async def test_state_is_accepted_while_the_store_is_full(harness: Harness, log: PartitionLog) -> None:
    await log.append(batch(3))
    harness.store.full = True
    assert await code_of(log.append(batch(1))) is ErrorCode.KAFKA_STORAGE_ERROR
    await log.append_state([checkpoint()])
    assert await state_of(log) == [(3, b"c")]


async def test_a_failed_append_of_state_leaves_no_trace(harness: Harness, log: PartitionLog) -> None:
    await log.append_state([checkpoint()])
    harness.store.fail_next_append(Fault.NOT_WRITTEN)
    assert await code_of(log.append_state([delta(0)])) is ErrorCode.KAFKA_STORAGE_ERROR
    assert await state_of(log) == [(0, b"c")]
    assert ends(log) == (0, 0, 1)


@pytest.mark.parametrize(("fault", "written"), [(Fault.LOST_UNKNOWN, False), (Fault.DONE_UNKNOWN, True)])
async def test_an_append_of_unknown_outcome_is_found_or_absent(
    harness: Harness, log: PartitionLog, fault: Fault, written: bool
) -> None:
    await log.append(batch(1))
    await log.append_state([checkpoint()])
    harness.store.fail_next_append(fault)
    assert await code_of(log.append_state([delta(0)])) is ErrorCode.REQUEST_TIMED_OUT
    await until_open(log)
    assert await state_of(log) == [(1, b"c"), *([(2, b"d")] if written else [])]
    assert ends(log) == (1, 1, 3 if written else 2)


# Retention and deletion


async def test_the_log_start_stops_at_the_earliest_share_offset(log: PartitionLog) -> None:
    await mixed(log)
    assert await log.delete_records(-1) == 3
    assert await state_of(log) == [(3, b"c"), (4, b"c"), (8, b"d"), (9, b"d"), (10, b"d")]


async def test_groups_are_checkpointed_before_the_log_start_passes(
    harness: Harness, log: PartitionLog
) -> None:
    await mixed(log)
    asked: list[list[str]] = []

    async def write(groups: Iterable[str]) -> None:
        asked.append([*groups])
        await log.append_state([checkpoint(group_id, b"moved") for group_id in asked[-1]])

    log.checkpoint_state = write
    assert await log.delete_records(4) == 4
    assert asked == [["g"]]
    assert await log.delete_records(-1) == 12
    assert asked == [["g"], ["h", "g"]]
    for each in (log, await harness.open()):
        assert [value for _, value in await state_of(each)] == [b"moved", b"moved"]
        assert offsets(await each.read(each.log_start_offset, FAR)) == []
    assert ends(log) == (12, 12, 14)


async def test_retention_keeps_state_without_a_checkpoint(log: PartitionLog) -> None:
    await mixed(log)
    log.settings = LogSettings(retention=Retention(retention_ms=0))
    assert await log.apply_retention(NOW + 10**9, None) == 3


async def test_retention_moves_state_once(log: PartitionLog) -> None:
    await mixed(log)
    log.settings = LogSettings(retention=Retention(retention_ms=0))
    asked: list[list[str]] = []

    async def write(groups: Iterable[str]) -> None:
        asked.append([*groups])
        await log.append_state([checkpoint(), checkpoint("h")])

    log.checkpoint_state = write
    assert [await log.apply_retention(NOW + 10**9, None) for _ in range(3)] == [8, 8, 8]
    assert asked == [["g", "h"]]


async def test_state_far_from_the_log_end_is_renewed_once(harness: Harness) -> None:
    log = await harness.open(settings=LogSettings(state_lag_bytes=3 * len(batch(9))))
    await log.append_state([checkpoint(), checkpoint("h")])
    asked: list[list[str]] = []

    async def write(groups: Iterable[str]) -> None:
        asked.append([*groups])
        await log.append_state([checkpoint(name) for name in asked[-1]])

    log.checkpoint_state = write
    for _ in range(3):
        await log.renew_state()
        await log.append(batch(9))
    await log.append_state([checkpoint("h")])
    assert (asked, log.earliest_share_offset) == ([], 0)
    for _ in range(3):
        await log.renew_state()
    assert asked == [["g"]]
    assert [log.transactions.share.checkpoint_offset(name) for name in "gh"] == [30, 29]


async def test_a_deleted_group_keeps_nothing_and_leaves_no_name(harness: Harness, log: PartitionLog) -> None:
    await mixed(log)
    await log.append_state([checkpoint("g", deleted=True), checkpoint("h", deleted=True)])
    await log.append(batch(1))
    assert await state_of(log) == []
    assert set(await harness.store.snapshots(NAME)) == set()
    assert await log.delete_records(-1) == 14
    assert ends(await harness.open()) == (14, 14, 14)


@pytest.mark.parametrize("settings", [LogSettings(), SMALL, CLOSED])
async def test_state_of_deleted_groups_is_hidden_from_readers(
    harness: Harness, settings: LogSettings
) -> None:
    log = await harness.open(settings=settings)
    await mixed(log)
    await log.append_state([checkpoint("g", deleted=True), checkpoint("h", deleted=True)])
    for each in (log, await harness.open(settings=settings)):
        read = [batch for start in (0, 3, 5) for batch in await each.read(start, 1)]
        assert [batch.base_offset for batch in read] == [0, 5, 5]
        assert await each.read(8, FAR) == []
        assert ends(each) == (8, 8, 13)


async def test_a_group_that_returns_after_its_deletion_has_its_new_state(
    harness: Harness, log: PartitionLog
) -> None:
    await mixed(log)
    await asyncio.gather(
        log.append_state([checkpoint("g", deleted=True)]),
        log.append_state([checkpoint("g", b"again")]),
        log.append_state([delta(1, "g", b"after")]),
    )
    for each in (log, await harness.open()):
        assert [value for _, value in await state_of(each)] == [b"c", b"d", b"again", b"after"]


async def test_missing_state_is_logged_and_other_groups_are_loaded(
    harness: Harness, log: PartitionLog
) -> None:
    await log.append_state([checkpoint("lost")])
    await log.append(batch(3))
    await log.append_state([checkpoint(), delta(0)])
    await harness.store.trim(NAME, 1, 1)
    with capture_logs() as logs:
        assert await state_of(log) == [(4, b"c"), (5, b"d")]
    assert [(entry["log_level"], entry["offsets"]) for entry in logs] == [("error", [0])]


async def test_state_of_which_the_store_lost_a_checkpoint_is_written_again(harness: Harness) -> None:
    log = await harness.open(settings=SMALL)
    asked: list[list[str]] = []

    async def write(groups: Iterable[str]) -> None:
        asked.append([*groups])
        await log.append_state([checkpoint(group_id, b"again") for group_id in asked[-1]])

    log.checkpoint_state = write
    await log.append_state([checkpoint("g", b"old")])
    earlier = deepcopy(harness.store._partitions)
    await log.append_state([checkpoint("g", b"new"), checkpoint("h")])
    await log.append(batch(3))  # the hot cache has this batch only
    harness.store._partitions = earlier
    await log.recheck()
    await eventually(lambda: asked == [["g", "h"]] and log.log_end_offset == 8)
    for each in (log, await harness.open()):
        assert [value for _, value in await state_of(each)] == [b"again", b"again"]


async def test_stored_state_remains_if_a_checkpoint_after_a_loss_fails(harness: Harness) -> None:
    log = await harness.open(settings=SMALL)

    async def refuse(_: Iterable[str]) -> None:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    log.checkpoint_state = refuse
    await log.append_state([checkpoint("g", b"old")])
    earlier = deepcopy(harness.store._partitions)
    await log.append_state([checkpoint("g", b"new")])
    await log.append(batch(3))
    harness.store._partitions = earlier
    with capture_logs() as logs:
        await log.recheck()
        await eventually(lambda: any("may be lost" in entry["event"] for entry in logs))
    assert await state_of(log) == [(0, b"old")]
    assert await state_of(await harness.open()) == [(0, b"old")]
    assert await code_of(log.delete_records(-1)) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_plain_reader_does_not_lower_the_end_of_a_log_without_state(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch(6))
    earlier = deepcopy(harness.store._partitions)
    await log.append(batch(6))
    await log.delete_records(-1)
    harness.store._partitions = earlier
    await log.recheck()
    await until_open(log)
    assert await log.read(7, FAR) == []
    assert ends(log) == (12, 12, 12)


async def test_a_read_at_the_end_visits_no_state(log: PartitionLog) -> None:
    await log.append(batch(1))
    for slot in range(3):
        await log.append_state([delta(slot)])
    visited: list[int] = []
    read_hot = LogState.read_hot

    def counted(state: LogState, offset: int, max_bytes: int) -> list[StoredBatch] | None:
        visited.append(offset)
        return read_hot(state, offset, max_bytes)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LogState, "read_hot", counted)
        assert [await log.read(offset, FAR) for offset in (1, 2, 4)] == [[], [], []]
    assert visited == []
    assert await code_of(log.read(5, FAR)) is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_small_reads_pass_over_much_state_in_few_steps(harness: Harness) -> None:
    log = await harness.open(settings=SMALL)
    for slot in range(50):
        await log.append_state([delta(slot)])
    for _ in range(3):
        await log.append(batch(3))
    reads: list[int] = []
    with pytest.MonkeyPatch.context() as patched:
        read = harness.store.read

        async def counted(partition: str, offset: int, max_bytes: int) -> list[StoredBatch]:
            reads.append(offset)
            return await read(partition, offset, max_bytes)

        patched.setattr(harness.store, "read", counted)
        assert offsets(await log.read(0, 1)) == [(50, 52)]
    assert reads == [0, 1]
    assert offsets(log.read_hot(53, 1)) == [(53, 55)]


async def test_a_removal_of_unknown_outcome_is_fenced(
    harness: Harness, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.append_state([checkpoint()])
    trim, epochs = harness.store.trim, list[int]()

    async def times_out(partition: str, epoch: int, *rest: Any) -> None:
        epochs.append(epoch)
        if len(epochs) == 1:
            raise LogOutcomeUnknown("no reply")
        await trim(partition, epoch, *rest)

    monkeypatch.setattr(harness.store, "trim", times_out)
    await log.append_state([checkpoint("g", deleted=True)])
    await eventually(lambda: log.phase is LogPhase.OPEN and log.epoch > epochs[0])
    await log.append_state([checkpoint("g", b"again")])
    assert await state_of(log) == [(2, b"again")]
