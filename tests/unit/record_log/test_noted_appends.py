"""Records that are appended together with notes."""

from __future__ import annotations

import asyncio

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.appends import Appended, Noted
from sharebroker_server.record_log.core import notes as module
from sharebroker_server.record_log.core.batch import parse_headers
from sharebroker_server.record_log.core.notes import Note, NotesDraft
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.record_log.record_validation import LogSettings
from tests.testkit.memory.stream_log import Fault
from tests.unit.record_log.batches import LIMIT, batch
from tests.unit.record_log.harness import NAME, NOW, Harness, code_of, offsets, settled, until_open

MS = int(NOW * 1000)


async def noted(log: PartitionLog, key: str, value: bytes, data: bytes = b"") -> Appended:
    headers = parse_headers(data, LIMIT) if data else []
    return await log.append_noted(lambda *_: Noted(data, headers, {key: Note(value)}), len(data))


async def attached(log: PartitionLog, count: int) -> Appended:
    data = batch(count)

    def decide(_: NotesDraft, base: int) -> Noted:
        note = Note(b"x", base, base + count - 1)
        return Noted(data, parse_headers(data, LIMIT), {f"to:{base}": note})

    return await log.append_noted(decide, len(data))


def values(log: PartitionLog) -> dict[str, bytes]:
    return {key: note.value for key, note in log.transactions.notes.items()}


async def test_a_note_is_stored_with_its_records_and_loaded(harness: Harness) -> None:
    log = await harness.open()
    await log.append(batch(2))
    assert await noted(log, "a", b"1", batch(3)) == Appended(2, 4, -1)
    assert await noted(log, "a", b"2") == Appended(5, 4, -1)
    for _ in range(2):
        assert values(log) == {"a": b"2"}
        assert offsets(await log.read(0, 10**6)) == [(0, 1), (2, 4)]
        log = await harness.open()


async def test_log_append_time_applies(harness: Harness) -> None:
    log = await harness.open(LogSettings(log_append_time=True))
    assert await noted(log, "a", b"1", batch(3)) == Appended(0, 2, MS)


async def test_an_append_receives_the_notes_of_earlier_appends(harness: Harness) -> None:
    log = await harness.open()
    seen: list[tuple[bytes, int]] = []

    def decide(notes: NotesDraft, base: int) -> Noted:
        note = notes.get("a")
        seen.append((b"" if note is None else note.value, base))
        return Noted(data, parse_headers(data, LIMIT), {"a": Note(seen[-1][0] + b"x")})

    data = batch(2)
    harness.store.hold()
    calls = [asyncio.ensure_future(log.append_noted(decide, len(data)))]
    await settled()
    calls += [asyncio.ensure_future(log.append_noted(decide, len(data))) for _ in range(2)]
    await settled()
    harness.store.release()
    await asyncio.gather(*calls)
    assert seen == [(b"", 0), (b"x", 2), (b"xx", 4)]
    assert harness.store.appends == [(NAME, 1), (NAME, 2)]


@pytest.mark.patches
async def test_a_rejected_append_leaves_no_note(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await harness.open()

    def reject(*_: object) -> Noted:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, "old")

    assert await code_of(log.append_noted(reject, 0)) is ErrorCode.FENCED_LEADER_EPOCH
    harness.store.fail_next_append(Fault.NOT_WRITTEN)
    assert await code_of(noted(log, "a", b"1", batch())) is ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.setattr(module, "MAX_NOTES", 0)
    assert await code_of(noted(log, "a", b"1", batch())) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert not values(log)
    assert (log.log_end_offset, await harness.store.snapshots(NAME)) == (0, {})


async def test_a_note_of_unknown_outcome_is_read_back(harness: Harness) -> None:
    log = await harness.open()
    await noted(log, "a", b"1")
    for fault, value in ((Fault.LOST_UNKNOWN, b"1"), (Fault.DONE_UNKNOWN, b"2")):
        harness.store.fail_next_append(fault)
        assert await code_of(noted(log, "a", b"2", batch())) is ErrorCode.REQUEST_TIMED_OUT
        await until_open(log)
        assert values(log) == {"a": value}


async def test_removed_notes_stay_removed(harness: Harness) -> None:
    log = await harness.open()
    for key in ("a", "b"):
        await noted(log, key, b"1")
    await log.remove_notes(["a", "unknown"])
    await log.remove_notes([])
    assert values(log) == values(await harness.open()) == {"b": b"1"}


async def test_a_note_is_not_removed_while_an_append_changes_it(harness: Harness) -> None:
    log = await harness.open()
    await noted(log, "a", b"1")
    harness.store.hold()
    changing = asyncio.ensure_future(noted(log, "a", b"2"))
    await settled()
    await log.remove_notes(["a"])
    harness.store.release()
    await changing
    assert values(log) == values(await harness.open()) == {"a": b"2"}


async def test_attached_notes_are_removed_with_their_records(harness: Harness) -> None:
    log = await harness.open()
    for count in (2, 3):
        await attached(log, count)
    await noted(log, "a", b"1")
    await log.delete_records(1)
    assert set(values(log)) == {"to:0", "to:2", "a"}
    await log.delete_records(2)
    assert set(values(log)) == set(values(await harness.open())) == {"to:2", "a"}
    await log.delete_records(-1)
    assert set(await harness.store.snapshots(NAME)) == {"na"}


async def test_lost_records_are_restored_with_their_notes(harness: Harness) -> None:
    log = await harness.open()
    await attached(log, 2)
    await noted(log, "a", b"1")
    earlier = await harness.store.snapshots(NAME)
    await noted(log, "a", b"2")
    await harness.store.append(NAME, log.epoch, (), (), earlier)  # the fail-over of a store loses the change
    harness.store.fail_next_append(Fault.LOST_UNKNOWN)
    assert await code_of(log.append(batch())) is ErrorCode.REQUEST_TIMED_OUT
    await until_open(log)
    assert values(log) == values(await harness.open()) == {"to:0": b"x", "a": b"2"}
    await harness.store.delete(NAME)
    await log.recheck()
    await until_open(log)
    assert values(await harness.open()) == {"to:0": b"x", "a": b"2"}


async def test_a_full_store_accepts_notes_without_records(harness: Harness) -> None:
    log = await harness.open()
    harness.store.full = True
    assert await code_of(noted(log, "a", b"1", batch())) is ErrorCode.KAFKA_STORAGE_ERROR
    assert await noted(log, "a", b"1") == Appended(0, -1, -1)


async def test_a_note_of_a_later_version_fails_to_open(harness: Harness) -> None:
    log = await harness.open()
    await harness.store.append(NAME, log.epoch, (), (), {"na": b"\x09"})
    assert await code_of(harness.open()) is ErrorCode.KAFKA_STORAGE_ERROR
